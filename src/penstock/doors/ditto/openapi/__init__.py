"""The OpenAPI document of the HTTP API: tables of operations, parameters and schemas, and the document made of them."""
