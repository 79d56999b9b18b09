import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Input and output of the peers in Java. */
final class Lines {
    private Lines() {}

    /** The lines as they arrive. When they end, the process ends, whatever it is waiting for. */
    static BlockingQueue<String> read() {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        new Thread(() -> {
            try {
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(System.in, StandardCharsets.UTF_8));
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line);
                }
            } catch (IOException error) {
                error.printStackTrace();
            }
            Runtime.getRuntime().halt(0);
        }).start();
        return lines;
    }

    static void answer(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
