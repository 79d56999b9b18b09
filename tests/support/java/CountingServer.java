import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ServerConfig;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * A standalone ZooKeeper server whose sequence numbers can be set, because a test cannot wait for
 * two billion creates. Arguments: its configuration file, and the port on which it takes orders.
 *
 * <p>An order is one connection with one line, {@code <number> <path>}: the next sequential child
 * of the node gets this number. The answer is one line: {@code ok}, or the problem.
 */
public final class CountingServer {
    private static final long PATIENCE_MILLIS = 5_000;

    private final ZooKeeperServer server;

    private CountingServer(ZooKeeperServer server) {
        this.server = server;
    }

    public static void main(String[] arguments) throws Exception {
        ServerConfig config = new ServerConfig();
        config.parse(arguments[0]);
        // The socket is opened before the server starts, because orders may be sent as soon as the server answers.
        InetAddress loopback = InetAddress.getLoopbackAddress();
        ServerSocket orders = new ServerSocket(Integer.parseInt(arguments[1]), 50, loopback);

        ZooKeeperServer server =
                new ZooKeeperServer(
                        config.getDataDir(), config.getDataLogDir(), config.getTickTime());
        server.setMinSessionTimeout(config.getMinSessionTimeout());
        server.setMaxSessionTimeout(config.getMaxSessionTimeout());
        ServerCnxnFactory factory =
                ServerCnxnFactory.createFactory(
                        config.getClientPortAddress(), config.getMaxClientCnxns());
        factory.startup(server);
        Runtime.getRuntime().addShutdownHook(new Thread(factory::shutdown));
        new CountingServer(server).serve(orders);
    }

    private void serve(ServerSocket orders) throws Exception {
        while (true) {
            try (Socket order = orders.accept()) {
                InputStreamReader input =
                        new InputStreamReader(order.getInputStream(), StandardCharsets.UTF_8);
                String answer = obey(new BufferedReader(input).readLine());
                new PrintStream(order.getOutputStream(), true, "UTF-8").println(answer);
            } catch (IOException | NumberFormatException error) {
                System.err.println("failed order: " + error);
            }
        }
    }

    // Since ZooKeeper 3.9, taking a snapshot may throw an IOException. Earlier versions do not declare it.
    private String obey(String order) throws Exception {
        String[] parts = order.split(" ", 2);
        int number = Integer.parseInt(parts[0]);
        DataNode node = server.getZKDatabase().getNode(parts[1]);
        if (node == null) {
            return "there is no node " + parts[1];
        }
        // A change in progress holds a copy of the node and would write the old number back.
        long end = System.currentTimeMillis() + PATIENCE_MILLIS;
        while (server.getInProcess() > 0) {
            if (System.currentTimeMillis() > end) {
                return "requests are in progress all the time";
            }
            Thread.sleep(1);
        }
        synchronized (node) {
            node.stat.setCversion(number);
        }
        // The transaction log does not contain the number, which would be lost when the process ends.
        server.takeSnapshot();
        return "ok";
    }
}
