import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Measures Curator's locks, controlled by the commands described in benches/locks/program.rs. */
public final class CuratorBench {
    private static final int SESSION_MILLIS = 30_000;
    private static final int WRITE_EACH = 10;
    /** How many new paths have been used so far. */
    private static final AtomicLong PATHS = new AtomicLong(ProcessHandle.current().pid() << 32);

    /** One operation; the argument is the number of operations that the thread has done. */
    private interface Step {
        void take(int turn) throws Exception;
    }

    /** When a thread began, and when each of its operations ended. */
    private static final class Run {
        long begun;
        final List<Long> ends = new ArrayList<>();
    }

    private final String server;
    private final List<CuratorFramework> sessions = new ArrayList<>();
    private CuratorFramework holder;
    private InterProcessMutex held;
    private CountDownLatch gate;
    private List<FutureTask<Long>> waiters = new ArrayList<>();

    private CuratorBench(String server) {
        this.server = server;
    }

    public static void main(String[] arguments) {
        BlockingQueue<String> lines = Lines.read();
        Lines.answer("ok");
        CuratorBench bench = new CuratorBench(arguments[0]);
        while (true) {
            try {
                Lines.answer("ok " + bench.obey(lines.take().split(" ")));
            } catch (Exception error) {
                Lines.answer("error " + error.toString().replace('\n', ' '));
            }
        }
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "sessions":
                open(Integer.parseInt(words[1]));
                return "";
            case "bench":
                int threads = Integer.parseInt(words[2]);
                return bench(words[1], threads, Double.parseDouble(words[3]), words[4]);
            case "version":
                return "Curator " + version() + ", Java " + System.getProperty("java.version");
            case "requests":
                return "";
            case "hold":
                holder = connect();
                held = new InterProcessMutex(holder, words[1]);
                held.acquire();
                return "";
            case "waiters":
                park(Integer.parseInt(words[1]), words[2]);
                return "";
            case "queue":
                gate.countDown();
                return "";
            case "release":
                return release();
            default:
                throw new IllegalArgumentException("not a command: " + words[0]);
        }
    }

    /** The version in the jar of the recipes. */
    private static String version() throws IOException {
        String name = "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties";
        Properties properties = new Properties();
        try (InputStream file = InterProcessMutex.class.getResourceAsStream(name)) {
            if (file != null) {
                properties.load(file);
            }
        }
        return properties.getProperty("version", "of an unknown version");
    }

    private CuratorFramework connect() throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                server, SESSION_MILLIS, SESSION_MILLIS, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private void open(int count) throws InterruptedException {
        while (sessions.size() > count) {
            sessions.remove(sessions.size() - 1).close();
        }
        while (sessions.size() < count) {
            sessions.add(connect());
        }
    }

    private String bench(String what, int threads, double seconds, String path) throws Exception {
        List<Step> steps = new ArrayList<>();
        for (int number = 0; number < sessions.size(); number++) {
            InterProcessMutex shared = new InterProcessMutex(sessions.get(number), path);
            for (int thread = 0; thread < threads; thread++) {
                steps.add(step(what, number, thread, path, shared));
            }
        }
        long time = (long) (seconds * 1e9);
        CyclicBarrier together = new CyclicBarrier(steps.size());
        List<FutureTask<Run>> tasks = new ArrayList<>();
        for (Step step : steps) {
            tasks.add(start(() -> {
                together.await();
                return run(step, time);
            }));
        }
        long begun = Long.MAX_VALUE;
        long ended = Long.MIN_VALUE;
        List<Long> times = new ArrayList<>();
        StringJoiner counts = new StringJoiner(",");
        for (FutureTask<Run> task : tasks) {
            Run run = task.get();
            begun = Math.min(begun, run.begun);
            counts.add(String.valueOf(run.ends.size()));
            long last = run.begun;
            for (long end : run.ends) {
                times.add(end - last);
                last = end;
            }
            ended = Math.max(ended, last);
        }
        return times(ended - begun, counts.toString(), times);
    }

    private Step step(String what, int number, int thread, String path, InterProcessMutex shared) {
        CuratorFramework session = sessions.get(number);
        switch (what) {
            case "own":
                InterProcessMutex own =
                        new InterProcessMutex(session, path + "/" + number + "-" + thread);
                return turn -> {
                    own.acquire();
                    own.release();
                };
            case "new":
                return turn -> {
                    InterProcessMutex fresh =
                            new InterProcessMutex(session, path + "/" + PATHS.getAndIncrement());
                    fresh.acquire();
                    fresh.release();
                };
            case "object":
                return turn -> {
                    InterProcessMutex object = new InterProcessMutex(session, path);
                    object.acquire();
                    object.release();
                };
            case "one":
                return turn -> {
                    shared.acquire();
                    shared.release();
                };
            case "try":
                return turn -> {
                    if (shared.acquire(0, TimeUnit.MILLISECONDS)) {
                        throw new IllegalStateException("it was granted a lock that is held");
                    }
                };
            case "read-write":
                InterProcessReadWriteLock both = new InterProcessReadWriteLock(session, path);
                int first = number * 7 + thread * 3;
                return turn -> {
                    boolean writes = (first + turn) % WRITE_EACH == 0;
                    InterProcessMutex lock = writes ? both.writeLock() : both.readLock();
                    lock.acquire();
                    lock.release();
                };
            default:
                throw new IllegalArgumentException("nothing to do is called " + what);
        }
    }

    private static Run run(Step step, long time) throws Exception {
        Run run = new Run();
        run.begun = System.nanoTime();
        for (long now = run.begun; now - run.begun < time; ) {
            step.take(run.ends.size());
            now = System.nanoTime();
            run.ends.add(now);
        }
        return run;
    }

    private void park(int count, String path) throws InterruptedException {
        CountDownLatch parked = new CountDownLatch(count);
        CountDownLatch gate = new CountDownLatch(1);
        waiters = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            InterProcessMutex lock = new InterProcessMutex(sessions.get(0), path);
            waiters.add(start(() -> {
                parked.countDown();
                gate.await();
                lock.acquire();
                long granted = System.nanoTime();
                lock.release();
                return granted;
            }));
        }
        parked.await();
        this.gate = gate;
    }

    private String release() throws Exception {
        long begun = System.nanoTime();
        held.release();
        List<Long> grants = new ArrayList<>();
        for (FutureTask<Long> waiter : waiters) {
            grants.add(waiter.get());
        }
        long all = System.nanoTime() - begun;
        Collections.sort(grants);
        List<Long> times = new ArrayList<>();
        long last = begun;
        for (long grant : grants) {
            times.add(grant - last);
            last = grant;
        }
        waiters = new ArrayList<>();
        holder.close();
        return times(all, "-", times);
    }

    private static <T> FutureTask<T> start(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        new Thread(task).start();
        return task;
    }

    private static String times(long all, String counts, List<Long> each) {
        StringBuilder text = new StringBuilder().append(all).append(' ').append(counts);
        each.forEach(time -> text.append(' ').append(time));
        return text.toString();
    }
}
