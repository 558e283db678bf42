"""Thing Models of the Web of Things: what a definition means for a thing. Pure rules; models are loaded by the door.

`resolution` makes a model of documents, `skeleton` makes values of it, `validation` checks values, and `description`
says what a reader may use. Upstream documentation: "WoT (Web of Things) integration".
"""
