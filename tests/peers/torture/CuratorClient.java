import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client process of torture that takes its locks by Curator's recipes: what {@code
 * --peer curator} starts in the place of zoolock's client (src/client). One client, some workers, a
 * heartbeat to the coordinator, and a thread that only sleeps.
 *
 * <p>The exponential back-off has room for a server that is started again; both timeouts are the
 * session's.
 */
public final class CuratorClient {
    private static final int BEAT_MILLIS = 500;
    private static final int RETRY_AFTER_MILLIS = 100;
    private static final int RETRIES = 5;

    /** A call of Curator that has not returned. */
    record InFlight(String op, int path, long since, Long deadline) {}

    final int process;
    final int incarnation;
    final long seed;
    final Path folder;
    final List<String> kinds;
    final List<Paths.LockPath> paths;
    final long timeoutNanos;
    final int threads;
    final Ownership ownership;
    final Recipes[] locks;
    final Gate gate = new Gate();
    /** The next holder that is about to write has to ask first. */
    final AtomicBoolean armed = new AtomicBoolean();
    /** Nobody kills the process in this phase any more. */
    volatile int spared;
    final AtomicReferenceArray<InFlight> calls;
    private final BlockingQueue<Long> naps = new ArrayBlockingQueue<>(1);
    private final CuratorFramework client;

    private CuratorClient(Map<String, String> options) {
        process = Integer.parseInt(options.get("--process"));
        incarnation = Integer.parseInt(options.get("--incarnation"));
        seed = Long.parseUnsignedLong(options.get("--seed"));
        folder = Path.of(options.get("--folder"));
        kinds = List.of(options.get("--kinds").split(","));
        paths = Paths.parse(options.get("--paths"));
        threads = Integer.parseInt(options.get("--threads"));
        int timeout = Integer.parseInt(options.get("--timeout-ms"));
        timeoutNanos = TimeUnit.MILLISECONDS.toNanos(timeout);
        calls = new AtomicReferenceArray<>(threads);
        ownership = new Ownership(gate);
        client = CuratorFrameworkFactory.builder()
                .connectString(options.get("--connect"))
                // It would find the servers behind the proxies that make the faults.
                .ensembleTracker(false)
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(timeout)
                .retryPolicy(new ExponentialBackoffRetry(RETRY_AFTER_MILLIS, RETRIES))
                .build();
        client.getConnectionStateListenable().addListener(ownership);
        locks = new Recipes[paths.size()];
        for (Paths.LockPath path : paths) {
            locks[path.number()] = new Recipes(client, path);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int index = 0; index < arguments.length; index++) {
            if (arguments[index].startsWith("--")) {
                options.put(arguments[index], arguments[++index]);
            }
        }
        new CuratorClient(options).run();
    }

    private void run() throws Exception {
        background(this::obey);
        client.start();
        client.blockUntilConnected();
        Coordinator coordinator = Coordinator.connect(folder);
        coordinator.report("Process",
                Coordinator.object("process", process, "incarnation", incarnation));
        background(() -> beat(coordinator));
        background(() -> nap(coordinator));
        List<Thread> workers = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            Worker worker = new Worker(this, thread);
            workers.add(new Thread(worker::work));
        }
        workers.forEach(Thread::start);
        for (Thread worker : workers) {
            worker.join();
        }
        client.close();
        Runtime.getRuntime().halt(0);
    }

    private static void background(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    /** The end of the input means that the coordinator is gone, however that came about. */
    private void obey() {
        try (BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (line.contains("Arm")) {
                    armed.set(true);
                } else if (line.contains("Spare")) {
                    spared = Coordinator.number(line, "phase");
                } else {
                    gate.close(Coordinator.number(line, "phase"));
                }
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(1);
    }

    private void beat(Coordinator coordinator) {
        while (true) {
            List<Object> slots = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                InFlight call = calls.get(thread);
                if (call != null) {
                    slots.add(Coordinator.object("thread", thread, "op", call.op(),
                            "path", call.path(), "since", call.since(),
                            "deadline", call.deadline()));
                }
            }
            Object counts = Coordinator.object("connections", ownership.connections(),
                    "resumed", 0, "holds_lost", 0);
            coordinator.report("Beat",
                    Coordinator.object("at", System.nanoTime(), "calls", slots, "counts", counts));
            Gate.sleep(TimeUnit.MILLISECONDS.toNanos(BEAT_MILLIS));
        }
    }

    /** Has the thread that only sleeps do so, if it is not asleep. */
    void nap(long nanos) {
        naps.offer(nanos);
    }

    private void nap(Coordinator coordinator) {
        while (true) {
            try {
                long nanos = naps.take();
                long since = System.nanoTime();
                Gate.sleep(nanos);
                long late = Math.max(0, System.nanoTime() - since - nanos);
                coordinator.report("Slept", Coordinator.object("since", since, "late", late));
            } catch (InterruptedException error) {
                return;
            }
        }
    }
}
