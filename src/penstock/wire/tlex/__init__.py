"""The streaming protocol of traffic-light payload exchange ("TLEX"), version 0x01, and the JSON of its REST side.

Bytes come in through `frames` and are understood in `datagrams`; a payload that is only passed on stays a frame, and
`payloads` and `monitor` change it. Why connections end is in `reasons`, the JSON in `rest`.
"""
