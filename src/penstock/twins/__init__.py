"""Things and policies: their rules, who may do what to them, and their state.

Pure: no sockets, no messages, no disk. Doors pass in commands (`command`) and translate results and refusals
(`reasons`); what the room needs from the outside is in `ports`. Begin at `registry`.
"""
