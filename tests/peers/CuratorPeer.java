import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's locks, controlled by the commands described in src/peer.rs. */
public final class CuratorPeer {
    /** Releases what was acquired. */
    private interface Taken {
        void giveBack() throws Exception;
    }

    private final CuratorFramework client;
    private final String who;
    private final Semaphore asked = new Semaphore(0);
    private Taken taken;

    private CuratorPeer(CuratorFramework client, String who) {
        this.client = client;
        this.who = who;
    }

    public static void main(String[] arguments) throws Exception {
        BlockingQueue<String> lines = Lines.read();
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[0], 20_000, 20_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        Lines.answer("ok");
        CuratorPeer peer = new CuratorPeer(client, arguments[1]);
        while (true) {
            try {
                peer.obey(lines.take().split(" "));
                Lines.answer("ok");
            } catch (Exception error) {
                Lines.answer("error " + error.toString().replace('\n', ' '));
            }
        }
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "unlock":
                taken.giveBack();
                break;
            case "asked":
                asked.acquire();
                break;
            case "revoke":
                Revoker.attemptRevoke(client, words[1]);
                break;
            case "run":
                int times = Integer.parseInt(words[1]);
                String[] taking = Arrays.copyOfRange(words, 3, words.length);
                for (int turn = 0; turn < times; turn++) {
                    take(taking);
                    visit(Path.of(words[2]), taking);
                    taken.giveBack();
                }
                break;
            default:
                take(words);
        }
    }

    private void take(String[] words) throws Exception {
        String path = words[1];
        switch (words[0]) {
            case "lock":
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                asked.drainPermits();
                mutex.makeRevocable(lock -> asked.release());
                take(mutex);
                break;
            case "read":
                take(new InterProcessReadWriteLock(client, path).readLock());
                break;
            case "write":
                take(new InterProcessReadWriteLock(client, path).writeLock());
                break;
            case "mutex":
                take(new InterProcessSemaphoreMutex(client, path));
                break;
            case "acquire":
                int count = Integer.parseInt(words[2]);
                int most = Integer.parseInt(words[3]);
                InterProcessSemaphoreV2 semaphore =
                        new InterProcessSemaphoreV2(client, path, most);
                Collection<Lease> leases = semaphore.acquire(count);
                taken = () -> semaphore.returnAll(leases);
                break;
            case "lead":
                lead(path);
                break;
            case "latch":
                LeaderLatch latch = new LeaderLatch(client, path);
                latch.start();
                latch.await();
                taken = latch::close;
                break;
            default:
                throw new IllegalArgumentException("not a command: " + words[0]);
        }
    }

    /** Leads by a selector until it is released. */
    private void lead(String path) throws Exception {
        CountDownLatch leads = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        ExecutorService thread = Executors.newSingleThreadExecutor();
        LeaderSelector selector = new LeaderSelector(client, path, thread,
                new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework client) throws InterruptedException {
                        leads.countDown();
                        over.await();
                    }
                });
        selector.start();
        leads.await();
        taken = () -> {
            over.countDown();
            thread.shutdown();
            // The selector releases its mutex on this thread, so wait for the thread to end.
            if (!thread.awaitTermination(1, TimeUnit.MINUTES)) {
                throw new IllegalStateException("the selector still leads");
            }
            selector.close();
        };
    }

    private void take(InterProcessLock lock) throws Exception {
        lock.acquire();
        taken = lock::release;
    }

    /** Follows the rules of the monitor, described in src/monitor.rs. */
    private void visit(Path folder, String[] taking) throws Exception {
        boolean permits = taking[0].equals("acquire");
        boolean sides = taking[0].equals("read") || taking[0].equals("write");
        String kind = permits ? "permit" : sides ? taking[0] : "lock";
        int count = permits ? Integer.parseInt(taking[2]) : 1;
        Path in = folder.resolve("in");
        List<Path> own = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            own.add(Files.createFile(in.resolve(kind + "." + who + "." + number)));
        }
        String seen;
        try (Stream<Path> files = Files.list(in)) {
            seen = files.map(file -> file.getFileName().toString()).collect(Collectors.joining(","));
        }
        String line = who + " " + kind + " " + seen + "\n";
        Files.writeString(folder.resolve("log"), line, StandardOpenOption.APPEND);
        boolean alone = kind.equals("lock") || kind.equals("write");
        Path counter = folder.resolve("counter");
        String before = alone ? Files.readString(counter).trim() : "";
        Thread.sleep(1);
        if (alone) {
            // The file is empty only if another holder is writing it. This counts as zero.
            int visits = before.isEmpty() ? 0 : Integer.parseInt(before);
            Files.writeString(counter, Integer.toString(visits + 1));
        }
        for (Path file : own) {
            Files.deleteIfExists(file);
        }
    }
}
