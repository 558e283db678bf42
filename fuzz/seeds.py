"""Inputs to begin with, and words to build others from, for each target.

Without them a fuzzer spends its first million inputs on finding out that requests begin with a method.
"""

from __future__ import annotations

_HEAD = b"POST /lightstreamer/control.txt?LS_protocol=TLCP-2.4.0 HTTP/1.1\r\nHost: h\r\n"
_HANDSHAKE = (
    b"GET /lightstreamer HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: TLCP-2.4.0.lightstreamer.com\r\n\r\n\x81\x84\0\0\0\0wsok"
)
# The first bytes of a stream say how it is cut.
_CUT = b"\x05\x00\x40\x11"
# How a header of version 2 begins.
_PROXY_2 = b"\r\n\r\n\x00\r\nQUIT\n"

SEEDS: dict[str, list[bytes]] = {
    "requests": [
        b"\x00LS_user=u&LS_password=p&LS_adapter_set=DEMO&LS_cid=a%20b&LS_polling=true&LS_idle_millis=0",
        b"\x00LS_adapter_set=DEMO\r\nLS_op=add&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=MERGE\r\n",
        b"\x01LS_session=S1&LS_recovery_from=12&LS_content_length=50000&LS_send_sync=false",
        b"\x02LS_reqId=1&LS_op=add&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=DISTINCT&LS_snapshot=5&LS_ack=false"
        b"&LS_requested_max_frequency=2.5&LS_requested_buffer_size=unlimited&LS_selector=x&LS_data_adapter=Q",
        b"\x02LS_reqId=1&LS_op=delete&LS_subId=1\r\nLS_reqId=2&LS_op=reconf&LS_subId=1&LS_requested_max_frequency=1",
        b"\x02LS_reqId=1&LS_op=constrain&LS_requested_max_bandwidth=.5\r\nLS_reqId=2&LS_op=force_rebind",
        b"\x02LS_reqId=1&LS_op=destroy&LS_cause_code=-7&LS_cause_message=bye&LS_close_socket=true",
        b"\x02LS_reqId=1&LS_op=register&PN_type=Apple&PN_appId=a.b&PN_deviceToken=12&PN_newDeviceToken=34",
        b"\x02LS_reqId=1&LS_op=activate&PN_deviceId=d&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=MERGE&PN_coalescing=true"
        b"&PN_notificationFormat=%7B%22aps%22:%22$%5B1%5D%22%7D&PN_trigger=Double.parseDouble($%5B1%5D)%3E5",
        b"\x02LS_reqId=1&LS_op=pn_reconf&PN_deviceId=d&PN_subscriptionId=p&LS_group=g&LS_schema=s&LS_mode=MERGE&PN_trigger="
        b"\r\nLS_reqId=2&LS_op=deactivate&PN_deviceId=d&PN_subscriptionStatus=ACTIVE\r\nLS_op=reset_badge&PN_deviceId=d",
        b"\x03LS_reqId=1&LS_message=%C3%A9&LS_sequence=A_1&LS_msg_prog=1&LS_max_wait=100&LS_outcome=false",
        b"\x04LS_session=S1\r\n\r\n",
        b"\x05TLCP-2.4.0",
    ],
    "values": [
        b"\x0a\x0120:00:33|3.04|0.0|2.41|3.67|3.03|3.04|#|#|$",
        b"\x0a\x0020:04:40|^4|3.02|3.03|||",
        b"\x03\x00%7C%25|%5E1|^1",
        b"\x02\x00^Pabc|^Tabc",
    ],
    "http1": [
        _CUT + _HEAD + b"Content-Length: 10\r\n\r\nLS_reqId=1",
        _CUT + _HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        _CUT + _HEAD + b"Content-Type: a/b; charset=utf-16\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab",
        _CUT + _HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nab",
        _CUT + _HEAD + b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        _CUT + _HANDSHAKE,
    ],
    "websocket": [
        _CUT + b"\x81\x84\0\0\0\0wsok\x81\x85\x01\x02\x03\x04iggnn",
        _CUT + b"\x01\x82\0\0\0\0ab\x89\x81\0\0\0\0x\x00\x80\0\0\0\0\x80\x82\0\0\0\0cd",
        _CUT + b"\x81\xfe\x00\x7e\0\0\0\0" + b"x" * 126 + b"\x88\x82\0\0\0\0\x03\xe8",
        _CUT + b"\x82\x81\0\0\0\0x\x8a\x80\0\0\0\0",
        # "Hello", compressed: RFC 7692, section 7.2.3.1.
        _CUT + b"\xc1\x87\0\0\0\0\xf2\x48\xcd\xc9\xc9\x07\x00",
    ],
    "http2": [
        _CUT + b"\0\0\1\1\4\0\0\0\1\x88\0\0\4\0\1\0\0\0\1body\0\0\1\1\5\0\0\0\3\x88",
        _CUT + b"\0\0\x0a\1\x28\0\0\0\1\2\0\0\0\0\0hepp\0\0\1\x09\4\0\0\0\1a\0\0\5\0\x09\0\0\0\1\1bod",
        _CUT + b"\0\0\6\4\0\0\0\0\0\0\4\0\0\0\1\0\0\4\x08\0\0\0\0\1\0\0\0\5\0\0\4\3\0\0\0\0\3\0\0\0\7",
        _CUT + b"\0\0\x08\6\0\0\0\0\0pingping\0\0\x08\7\0\0\0\0\0\0\0\0\1\0\0\0\0",
    ],
    "proxy": [
        _CUT + b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 8080\r\nGET / HTTP/1.1\r\n",
        _CUT + b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 8080\r\n",
        _CUT + b"PROXY UNKNOWN\r\n",
        _CUT + _PROXY_2 + b"\x21\x11\x00\x0c\xc0\x00\x02\x07\xc0\x00\x02\x01\x12\x67\x1f\x90GET",
        _CUT + _PROXY_2 + b"\x21\x21\x00\x27" + b"\x20\x01\x0d\xb8" + b"\0" * 32 + b"\x04\x00\x00",
        _CUT + _PROXY_2 + b"\x20\x00\x00\x00",
    ],
    "forwarded": [
        b'for="[2001:db8::7]:4711";proto=https;by=203.0.113.43, for=192.0.2.7, for=_hidden, for=unknown',
        b"192.0.2.7, [2001:db8::7]:4711, 2001:db8::8, 198.51.100.1:80, unknown",
        b'For="_gazonk";host="a\\"b"',
    ],
    "trigger": [
        b"Double.parseDouble(${last_price}) > 500.0\n501",
        b'$[1].equals("x") && !$[2].trim().isEmpty() || $[1] == null\nx\nnull',
        b"(Integer.parseInt($[1]) % 7 == 0x3 ? 'a' : $[2].charAt(0)) >= Math.max(1L, 2.5f)\n17\nb",
        b'$[1].matches("[+-]?(?:\\\\d*\\\\.)?\\\\d{1,3}|(?i)x*")\n1.5',
        b'("" + 1 + $[1].length() + \'c\').substring(1, 2).compareTo("\\u0041") < -2147483648\nab',
    ],
    "format": [
        b'{"aps":{"alert":"Your stock ${stock_name} is now $[2]","badge":"AUTO"}}',
        b'{"a":[1,-2.5e3,true,null,{"b":"\\u0024[1]\\n\\ud83d\\ude00"}]}',
        b'{"android":{"notification":{"title":"$[1]"}},"data":{"x":"${y}"}}',
    ],
}

WORDS: dict[str, list[bytes]] = {
    "requests": [
        *b"LS_user LS_password LS_adapter_set LS_cid LS_polling LS_polling_millis LS_idle_millis".split(),
        *b"LS_keepalive_millis LS_inactivity_millis LS_content_length LS_supported_diffs LS_ttl_millis".split(),
        *b"LS_send_sync LS_reduce_head LS_session LS_recovery_from LS_reqId LS_op LS_subId LS_group LS_schema".split(),
        *b"LS_mode LS_selector LS_data_adapter LS_snapshot LS_ack LS_requested_max_frequency LS_message".split(),
        *b"LS_requested_max_bandwidth LS_requested_buffer_size LS_sequence LS_msg_prog LS_max_wait LS_outcome".split(),
        *b"LS_cause_code LS_cause_message LS_close_socket add delete reconf constrain force_rebind destroy".split(),
        *b"PN_type PN_appId PN_deviceToken PN_newDeviceToken PN_deviceId PN_subscriptionId PN_trigger".split(),
        *b"PN_notificationFormat PN_coalescing PN_subscriptionStatus TRIGGERED".split(),
        *b"reset_badge activate pn_reconf deactivate".split(),
        *b"register RAW MERGE DISTINCT COMMAND true false unlimited unfiltered unknown & = % + %C3%A9 %FF".split(),
        b"\r\n",
    ],
    "values": [*b"| # $ ^ ^4 ^0 ^P ^T %7C %FF %C3%A9 %".split(), b"^99999999999999999999"],
    "http1": [
        *b"GET POST CONNECT OPTIONS HTTP/1.1 HTTP/1.0 Host: Content-Length: Transfer-Encoding: chunked".split(),
        *b"Connection: Upgrade: websocket h2c close keep-alive Expect: 100-continue Content-Type: charset=".split(),
        *b"Content-Encoding: gzip deflate Sec-WebSocket-Protocol: Sec-WebSocket-Key: Sec-WebSocket-Version:".split(),
        *b"utf-16 punycode idna undefined".split(),
        b"\r\n",
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"\n",
        b": ",
    ],
    "http2": [
        b"\0\0\1\1\5\0\0\0\1\x88",
        b"\0\0\1\0\1\0\0\0\1x",
        b"\0\0\1\0\x08\0\0\0\3\0",
        b"\0\0\4\x08\0\0\0\0\0\0\0\0\1",
        b"\0\0\0\4\0\0\0\0\0",
        b"\0\0\0\x09\4\0\0\0\1",
        b"\x7f\xff\xff\xff",
    ],
    "websocket": [
        b"\x81\x80\0\0\0\0",
        b"\x01\x80\0\0\0\0",
        b"\x00\x80\0\0\0\0",
        b"\x80\x80\0\0\0\0",
        b"\x88\x80\0\0\0\0",
        b"\x89\x80\0\0\0\0",
        b"\x82\x80\0\0\0\0",
        b"\x81\xfe\x00\x7e",
        b"\x81\xff\0\0\0\0\0\x01\0\0",
        b"\x03\xe8",
        b"\xe2\x82\xac",
        b"\xff",
    ],
    "proxy": [
        *b"PROXY TCP4 TCP6 UNKNOWN 192.0.2.7 2001:db8::7 ::ffff:1.2.3.4 65535 0 fe80::1%eth0".split(),
        _PROXY_2,
        b"\x21\x11\x00\x0c",
        b"\x21\x21\x00\x24",
        b"\r\n",
        b" ",
    ],
    "forwarded": [
        *b'for= for=_x unknown by= proto=https ; , " \\ [2001:db8::7] [::1]:80 192.0.2.7:80 %eth0 : [ ]'.split(),
        b" ",
    ],
    "trigger": [
        *b"$[1] $[2] ${a} && || == != <= >= < > ! ? : + - * / % ( ) . , null true false 'a'".split(),
        *b'"a" 1 2.5 3L 4f 0x7 1e3 2147483648'.split(),
        *b"Double.parseDouble( Integer.parseInt( Long.parseLong( Float.parseFloat( Double.valueOf( java.lang.".split(),
        *b"Boolean.parseBoolean( Math.abs( Math.min( Math.max( Math.floor( Math.ceil( Math.round( Math.sqrt(".split(),
        *b"Math.pow( .equals( .equalsIgnoreCase( .length() .startsWith( .endsWith( .contains( .indexOf(".split(),
        *b".matches( .trim() .toUpperCase() .toLowerCase() .isEmpty() .substring( .charAt( .compareTo(".split(),
        *b"[a-z] \\\\d (?: (?i) {2,3} *? \\\\p{L} \\\\Q \\u0041".split(),
        b"\n",
    ],
    "format": [*b'{ } [ ] : , "a": "aps": "badge": "AUTO" "$[1]" "${a}" \\u0024 \\ud800 1e9 null true NaN'.split()],
}
