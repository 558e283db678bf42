"""Java itself as the judge of expressions: it compiles them, and evaluates them on values."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.push.trigger.strings import in_units

Values = tuple[str | None, ...]

# Reads the number of an expression and values from each line, and writes a letter for the result.
MAIN = """
public static void main(String[] arguments) throws Exception {
    StringBuilder out = new StringBuilder();
    for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(arguments[0]))) {
        String[] parts = line.split(";");
        Class[] types = new Class[parts.length - 1];
        Object[] values = new Object[parts.length - 1];
        for (int i = 1; i < parts.length; i++) {
            types[i - 1] = String.class;
            if (parts[i].equals("null")) continue;
            StringBuilder value = new StringBuilder();
            for (String unit : parts[i].trim().split(" "))
                if (!unit.isEmpty()) value.append((char) Integer.parseInt(unit, 16));
            values[i - 1] = value.toString();
        }
        try {
            out.append((Boolean) Cases.class.getDeclaredMethod(parts[0], types).invoke(null, values) ? 'T' : 'F');
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            out.append('E');
        }
    }
    System.out.println(out);
}
"""
# For processes that live for a second.
QUICK = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Java says of an expression: why it does not compile, or its results, in which None is an exception."""

    error: str | None
    results: tuple[bool | None, ...] = ()


def judge(cases: Sequence[tuple[str, Sequence[Values]]], folder: Path) -> list[Verdict]:
    """An expression with the values to evaluate it on, each; the compiler runs until it is left with the right ones."""
    errors: dict[int, str] = {}
    while more := _compile([expression for expression, _ in cases], errors, len(cases[0][1][0]), folder):
        errors |= more
    inputs = folder / "inputs"
    inputs.write_text(
        "".join(
            ";".join((f"t{number}", *map(_units, values))) + "\n"
            for number, (_, each) in enumerate(cases)
            if number not in errors
            for values in each
        )
    )
    command = ["java", QUICK, "-cp", str(folder), "Cases", str(inputs)]
    letters = iter(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    results = {"T": True, "F": False, "E": None}
    return [
        Verdict(errors[number]) if number in errors else Verdict(None, tuple(results[next(letters)] for _ in each))
        for number, (_, each) in enumerate(cases)
    ]


def _compile(expressions: Sequence[str], without: dict[int, str], field_count: int, folder: Path) -> dict[int, str]:
    """The errors by the number of the expression, not always all of them: some wrong ones make the compiler stop."""
    parameters = ", ".join(f"String LS_MPN_field{index + 1}" for index in range(field_count))
    lines = ["public class Cases {"]
    for number, expression in enumerate(expressions):
        variables = "true" if number in without else re.sub(r"\$\[(\d+)\]", r"LS_MPN_field\1", expression)
        lines.append(f"static boolean t{number}({parameters}) {{ return {variables}; }}")
    source = folder / "Cases.java"
    source.write_text("\n".join([*lines, MAIN, "}"]), "utf-8")
    options = ["-encoding", "UTF-8", "-proc:none", "-nowarn", "-Xlint:none", "-Xmaxerrs", "100000", "-d", str(folder)]
    run = subprocess.run(["javac", f"-J{QUICK}", *options, str(source)], stderr=subprocess.PIPE, text=True, cwd=folder)
    found = re.findall(r"Cases\.java:(\d+): error: (.*)", run.stderr)
    assert found or run.returncode == 0, run.stderr
    return {int(line) - 2: text for line, text in found}


def _units(value: str | None) -> str:
    """Each unit in hexadecimal; a space for nothing at all."""
    return "null" if value is None else " " + " ".join(f"{ord(unit):x}" for unit in in_units(value))
