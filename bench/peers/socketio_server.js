// The server of the peer `socket.io`: the event `s` subscribes to rooms, `p` publishes pairs of room and payload.
// Run by Node.js with socket.io on its module path and the port as its argument.
"use strict";

const { Server } = require("socket.io");

const LARGEST = 16 * 1024 * 1024;

const server = new Server(Number(process.argv[2]), {
    transports: ["websocket"],
    maxHttpBufferSize: LARGEST,
    perMessageDeflate: false,
});

server.on("connection", (socket) => {
    socket.on("s", (...names) => {
        socket.join(names);
        socket.emit("ok");
    });
    socket.on("p", (...pairs) => {
        for (let index = 0; index < pairs.length; index += 2) {
            server.to(pairs[index]).emit("u", pairs[index + 1]);
        }
    });
});
