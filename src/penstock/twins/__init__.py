"""Things and policies: their rules, who may do what to them, and their state.

Pure: no sockets, no messages, no disk. Doors hand in commands (`command`) and translate what comes back, results and
reasons for refusing (`reasons`); what the room needs of the world is in `ports`. Begin at `registry`.
"""
