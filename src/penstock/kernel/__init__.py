"""The rules of streaming: items, views, subscriptions, sessions, recovery, messages.

Pure and synchronous: the clock is passed in, bytes come from a codec and go to a channel (see `ports`). No protocol is
known here; `penstock.wire` has the codecs and `penstock.server` brings the two together.
"""
