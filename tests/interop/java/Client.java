// The published Java SE client, driven by JSON lines: commands on standard input, events on standard output.
// Not here: what commands and events there are (../published.py, which talks to all drivers).
// One source for both generations: their listeners differ in some methods, so that they are made by reflection.
// Read next: ../drivers/javascript_client.js, its twin.

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.lightstreamer.client.ClientListener;
import com.lightstreamer.client.ClientMessageListener;
import com.lightstreamer.client.ItemUpdate;
import com.lightstreamer.client.LightstreamerClient;
import com.lightstreamer.client.Subscription;
import com.lightstreamer.client.SubscriptionListener;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final Map<String, Connection> CONNECTIONS = new HashMap<>();

    private Client() {}

    /** What happened, with its arguments. */
    private interface Report {
        void take(String event, Object[] arguments);
    }

    private static final class Connection {
        final LightstreamerClient client;
        final Map<String, Subscription> subscriptions = new HashMap<>();

        Connection(LightstreamerClient client) {
            this.client = client;
        }
    }

    public static void main(String[] ignored) throws IOException {
        emit("", "ready", Map.of("version", LightstreamerClient.LIB_VERSION));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> command = JSON.readValue(line, new TypeReference<Map<String, Object>>() {});
            String name = (String) command.get("client");
            try {
                carryOut(name, command);
            } catch (Exception failure) {
                Throwable cause = failure.getCause() == null ? failure : failure.getCause();
                emit(name, "refused", Map.of("reason", cause.toString()));
            }
        }
        // Clients in the middle of something would keep the process alive.
        System.exit(0);
    }

    private static void carryOut(String name, Map<String, Object> command) throws ReflectiveOperationException {
        switch ((String) command.get("do")) {
            case "connect" -> connect(name, command);
            case "subscribe" -> subscribe(name, command);
            case "limit_frequency" -> CONNECTIONS.get(name)
                    .subscriptions.get(text(command, "subscription"))
                    .setRequestedMaxFrequency(text(command, "frequency"));
            case "unsubscribe" -> {
                Connection connection = CONNECTIONS.get(name);
                connection.client.unsubscribe(connection.subscriptions.remove(text(command, "subscription")));
            }
            case "send" -> {
                Object timeout = command.get("delay_timeout");
                CONNECTIONS.get(name).client.sendMessage(
                        text(command, "text"),
                        text(command, "sequence"),
                        timeout == null ? -1 : ((Number) timeout).intValue(),
                        outcome(name),
                        (Boolean) command.get("enqueue"));
            }
            case "limit_bandwidth" -> CONNECTIONS.get(name)
                    .client.connectionOptions.setRequestedMaxBandwidth(text(command, "bandwidth"));
            case "disconnect" -> CONNECTIONS.remove(name).client.disconnect();
            default -> throw new IllegalArgumentException("unknown command " + command.get("do"));
        }
    }

    private static void connect(String name, Map<String, Object> command) throws ReflectiveOperationException {
        LightstreamerClient client = new LightstreamerClient(text(command, "address"), text(command, "adapter_set"));
        if (command.get("transport") != null) {
            client.connectionOptions.setForcedTransport(text(command, "transport"));
        }
        if (command.get("user") != null) {
            client.connectionDetails.setUser(text(command, "user"));
        }
        for (Map.Entry<?, ?> option : ((Map<?, ?>) command.get("options")).entrySet()) {
            setOption(client.connectionOptions, "set" + option.getKey(), option.getValue());
        }
        CONNECTIONS.put(name, new Connection(client));
        client.addListener(listener(ClientListener.class, (event, arguments) -> {
            switch (event) {
                case "onStatusChange" -> emit(
                        name, "status", details("status", arguments[0], "session", client.connectionDetails.getSessionId()));
                case "onServerError" -> emit(
                        name, "server error", details("code", arguments[0], "message", arguments[1]));
                case "onPropertyChange" -> {
                    String property = (String) arguments[0];
                    if (isReported(property)) {
                        emit(name, "property", details("name", property, "value", value(client, property)));
                    }
                }
                default -> {}
            }
        }));
        client.connect();
    }

    private static void setOption(Object options, String setter, Object value) throws ReflectiveOperationException {
        for (Method method : options.getClass().getMethods()) {
            if (method.getName().equals(setter)) {
                method.invoke(options, value instanceof Number ? ((Number) value).longValue() : value);
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }

    /** Properties of the connection that the server decides. */
    private static boolean isReported(String property) {
        return List.of("sessionId", "serverSocketName", "clientIp", "realMaxBandwidth", "keepaliveInterval")
                .contains(property);
    }

    private static Object value(LightstreamerClient client, String property) {
        return switch (property) {
            case "sessionId" -> client.connectionDetails.getSessionId();
            case "serverSocketName" -> client.connectionDetails.getServerSocketName();
            case "clientIp" -> client.connectionDetails.getClientIp();
            case "realMaxBandwidth" -> client.connectionOptions.getRealMaxBandwidth();
            default -> client.connectionOptions.getKeepaliveInterval();
        };
    }

    private static void subscribe(String name, Map<String, Object> command) {
        Subscription made = new Subscription(text(command, "mode"), texts(command, "items"), texts(command, "fields"));
        made.setDataAdapter(text(command, "adapter"));
        if (command.get("snapshot") != null) {
            made.setRequestedSnapshot(text(command, "snapshot"));
        }
        if (command.get("second_level") instanceof Map<?, ?> second) {
            made.setCommandSecondLevelDataAdapter((String) second.get("adapter"));
            made.setCommandSecondLevelFields(((List<?>) second.get("fields")).toArray(new String[0]));
        }
        made.addListener(updates(name, text(command, "subscription")));
        Connection connection = CONNECTIONS.get(name);
        connection.subscriptions.put(text(command, "subscription"), made);
        connection.client.subscribe(made);
    }

    private static SubscriptionListener updates(String name, String subscription) {
        return listener(SubscriptionListener.class, (event, arguments) -> {
            Map<String, Object> told = details("subscription", subscription);
            switch (event) {
                case "onSubscription" -> emit(name, "subscribed", told);
                case "onUnsubscription" -> emit(name, "unsubscribed", told);
                case "onSubscriptionError" -> {
                    told.putAll(details("code", arguments[0], "message", arguments[1]));
                    emit(name, "subscription error", told);
                }
                case "onItemUpdate" -> {
                    ItemUpdate update = (ItemUpdate) arguments[0];
                    told.putAll(details("item", update.getItemName(), "snapshot", update.isSnapshot()));
                    told.putAll(details("values", update.getFields(), "changed", update.getChangedFields()));
                    emit(name, "update", told);
                }
                case "onEndOfSnapshot" -> {
                    told.put("item", arguments[0]);
                    emit(name, "end of snapshot", told);
                }
                case "onItemLostUpdates" -> {
                    told.putAll(details("item", arguments[0], "count", arguments[2]));
                    emit(name, "lost updates", told);
                }
                case "onCommandSecondLevelSubscriptionError" -> {
                    told.putAll(details("code", arguments[0], "message", arguments[1], "key", arguments[2]));
                    emit(name, "second level error", told);
                }
                case "onCommandSecondLevelItemLostUpdates" -> {
                    told.putAll(details("count", arguments[0], "key", arguments[1]));
                    emit(name, "second level lost updates", told);
                }
                case "onRealMaxFrequency" -> {
                    told.put("value", arguments[0]);
                    emit(name, "max frequency", told);
                }
                default -> {}
            }
        });
    }

    private static ClientMessageListener outcome(String name) {
        return listener(ClientMessageListener.class, (event, arguments) -> {
            Map<String, Object> told = details("text", arguments[0]);
            switch (event) {
                // Generations before the fifth hand over no response.
                case "onProcessed" -> told.putAll(
                        details("outcome", "processed", "response", arguments.length > 1 ? arguments[1] : null));
                case "onDeny" -> told.putAll(
                        details("outcome", "denied", "code", arguments[1], "message", arguments[2]));
                case "onAbort" -> told.putAll(details("outcome", "aborted", "sent", arguments[1]));
                case "onDiscarded" -> told.put("outcome", "discarded");
                default -> told.put("outcome", "failed");
            }
            emit(name, "message", told);
        });
    }

    private static <T> T listener(Class<T> kind, Report report) {
        InvocationHandler handler = (proxy, method, arguments) -> {
            if (method.getDeclaringClass() == Object.class) {
                // The client keeps its listeners in collections.
                return switch (method.getName()) {
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == arguments[0];
                    default -> kind.getSimpleName();
                };
            }
            report.take(method.getName(), arguments == null ? new Object[0] : arguments);
            return null;
        };
        return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, handler));
    }

    private static String text(Map<String, Object> command, String key) {
        return (String) command.get(key);
    }

    private static String[] texts(Map<String, Object> command, String key) {
        return ((List<?>) command.get(key)).toArray(new String[0]);
    }

    /** A map of names and values; values may be null. */
    private static Map<String, Object> details(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            made.put((String) pairs[index], pairs[index + 1]);
        }
        return made;
    }

    private static void emit(String client, String event, Map<String, Object> details) {
        Map<String, Object> line = details("client", client, "event", event);
        line.putAll(details);
        try {
            String written = JSON.writeValueAsString(line);
            // The client calls its listeners on threads of its own.
            synchronized (OUT) {
                OUT.print(written + "\n");
                OUT.flush();
            }
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }
}
