// As much JSON as the commands and reports of the contract have: Java has none of its own.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

final class Json {
    private final String text;
    private int next;

    private Json(String text) {
        this.text = text;
    }

    /** A value without numbers, which no command has. */
    static Object read(String text) {
        return new Json(text).value();
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                .map(entry -> write(entry.getKey()) + ":" + write(entry.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value == null || value instanceof Number) {
            return String.valueOf(value);
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : value.toString().toCharArray()) {
            quoted.append(each < 0x20 || each > 0x7e || each == '"' || each == '\\'
                ? String.format("\\u%04x", (int) each) : String.valueOf(each));
        }
        return quoted.append('"').toString();
    }

    private Object value() {
        switch (peek()) {
            case '{':
                Map<String, Object> map = new HashMap<>();
                while (another('{', '}')) {
                    String name = string();
                    expect(':');
                    map.put(name, value());
                }
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                while (another('[', ']')) {
                    list.add(value());
                }
                return list;
            case '"':
                return string();
            case 't':
                next += "true".length();
                return true;
            case 'f':
                next += "false".length();
                return false;
            case 'n':
                next += "null".length();
                return null;
            default:
                throw new IllegalArgumentException("at " + next + ": " + text);
        }
    }

    /** Past the opening bracket or a comma, if anything follows; else past the closing bracket. */
    private boolean another(char opening, char closing) {
        char found = peek();
        next += 1;
        if (found == opening && peek() == closing) {
            found = closing;
            next += 1;
        }
        return found != closing;
    }

    private String string() {
        expect('"');
        StringBuilder found = new StringBuilder();
        while (text.charAt(next) != '"') {
            char each = text.charAt(next++);
            if (each == '\\') {
                each = text.charAt(next++);
                int plain = "nrtbf".indexOf(each);
                if (each == 'u') {
                    each = (char) Integer.parseInt(text.substring(next, next + 4), 16);
                    next += 4;
                } else if (plain >= 0) {
                    each = "\n\r\t\b\f".charAt(plain);
                }
            }
            found.append(each);
        }
        next += 1;
        return found.toString();
    }

    private void expect(char wanted) {
        if (peek() != wanted) {
            throw new IllegalArgumentException("at " + next + ": " + text);
        }
        next += 1;
    }

    private char peek() {
        while (text.charAt(next) == ' ') {
            next += 1;
        }
        return text.charAt(next);
    }
}
