// The adapters of the contract by the published SDK for Java: states, data port and metadata port on the command line.
// Commands on standard input, reports on standard output, both in JSON lines: see ../backends.py.

import com.lightstreamer.adapters.remote.DataProviderServer;
import com.lightstreamer.adapters.remote.ExceptionHandler;
import com.lightstreamer.adapters.remote.MetadataProviderServer;
import com.lightstreamer.adapters.remote.RemotingException;
import com.lightstreamer.adapters.remote.Server;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

final class Adapter {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    /** A report: the event, then names and values by turns. */
    static synchronized void tell(String event, Object... details) {
        Map<String, Object> report = new HashMap<>();
        report.put("event", event);
        for (int index = 0; index < details.length; index += 2) {
            report.put((String) details[index], details[index + 1]);
        }
        OUT.println(Json.write(report));
    }

    private static void start(Server server, int port) throws Exception {
        Socket socket = new Socket("127.0.0.1", port);
        server.setRequestStream(socket.getInputStream());
        server.setReplyStream(socket.getOutputStream());
        server.setRemoteUser("ru");
        server.setRemotePassword("p w");
        server.setExceptionHandler(new ExceptionHandler() {
            @Override
            public boolean handleIOException(IOException error) {
                System.exit(0);
                return false;
            }

            @Override
            public boolean handleException(RemotingException error) {
                System.exit(1);
                return false;
            }
        });
        server.start();
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Data data = new Data((Map<String, Object>) Json.read(arguments[0]));
        MetadataProviderServer metadataServer = new MetadataProviderServer();
        Metadata metadata = new Metadata();
        metadataServer.setAdapter(metadata);
        start(metadataServer, Integer.parseInt(arguments[2]));
        DataProviderServer dataServer = new DataProviderServer();
        dataServer.setAdapter(data);
        start(dataServer, Integer.parseInt(arguments[1]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> command = (Map<String, Object>) Json.read(line);
            if (!metadata.obeys(command)) {
                data.obey(command);
            }
        }
        System.exit(0);
    }
}
