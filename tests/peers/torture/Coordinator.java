import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A socket to the coordinator, and the lines of JSON that go both ways: those of
 * src/protocol.rs. When the coordinator is gone, so is the process.
 */
final class Coordinator {
    private final SocketChannel channel;
    private final ByteBuffer heard = ByteBuffer.allocate(4096).flip();

    private Coordinator(SocketChannel channel) {
        this.channel = channel;
    }

    static Coordinator connect(Path folder) throws IOException {
        Path socket = folder.resolve("socket");
        return new Coordinator(SocketChannel.open(UnixDomainSocketAddress.of(socket)));
    }

    /** A message without contents. */
    void report(String name) {
        send(name);
    }

    void report(String name, Object contents) {
        send(object(name, contents));
    }

    private synchronized void send(Object message) {
        ByteBuffer line = StandardCharsets.UTF_8.encode(json(message) + "\n");
        try {
            while (line.hasRemaining()) {
                channel.write(line);
            }
        } catch (IOException error) {
            Runtime.getRuntime().halt(1);
        }
    }

    /** The next line, by the one thread that listens. */
    String reply() {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        try {
            while (true) {
                while (heard.hasRemaining()) {
                    byte next = heard.get();
                    if (next == '\n') {
                        return line.toString(StandardCharsets.UTF_8);
                    }
                    line.write(next);
                }
                heard.clear();
                int length = channel.read(heard);
                heard.flip();
                if (length < 0) {
                    break;
                }
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(1);
        throw new IllegalStateException("halted");
    }

    /** The names and the values by turns. */
    static Map<String, Object> object(Object... fields) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int index = 0; index < fields.length; index += 2) {
            object.put((String) fields[index], fields[index + 1]);
        }
        return object;
    }

    /** The whole number of this name; what the coordinator says has one of each name at most. */
    static int number(String line, String name) {
        Matcher matcher = Pattern.compile('"' + name + "\":(\\d+)").matcher(line);
        if (!matcher.find()) {
            throw new IllegalArgumentException("no " + name + " in " + line);
        }
        return Integer.parseInt(matcher.group(1));
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> object) {
            return object.entrySet().stream()
                    .map(field -> json(field.getKey()) + ":" + json(field.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Coordinator::json).collect(Collectors.joining(",", "[", "]"));
        }
        if (value instanceof String text) {
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }
        return String.valueOf(value);
    }
}
