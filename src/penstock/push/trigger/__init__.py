"""Trigger expressions: boolean expressions of Java over the fields of an update, as a typed subset without any `eval`.

Begin reading at `trigger`: a text is cut into tokens (`lexer`), read and checked (`parser`, `operators`, `members`),
and becomes functions that are called for each update. The words are Java's, and so is what they do: `numbers`,
`strings`, `pattern`. Specification: General Concepts, 5.4.2.
"""
