import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.zookeeper.data.Stat;

/** Curator's locks at one path, which the threads of the process mode. */
final class Recipes {
    /** Waits for as long as it takes. */
    static final long FOREVER = -1;

    /** What was granted at one path. */
    record Part(Paths.LockPath path, Mode mode, List<String> nodes) {}

    /** What a call has granted, and how it is given back. */
    record Held(List<Part> parts, Callable<?> release) {}

    /** A lock that shows its node. */
    private interface Shown extends InterProcessLock {
        String node();
    }

    private static final class Mutex extends InterProcessMutex implements Shown {
        private Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        @Override
        public String node() {
            return getLockPath();
        }
    }

    private static final class Writing extends InterProcessReadWriteLock.WriteLock
            implements Shown {
        private Writing(CuratorFramework client, String path) {
            super(client, path, null);
        }

        @Override
        public String node() {
            return getLockPath();
        }
    }

    private static final class Reading extends InterProcessReadWriteLock.ReadLock
            implements Shown {
        private Reading(CuratorFramework client, String path, Writing writing) {
            super(client, path, null, writing);
        }

        @Override
        public String node() {
            return getLockPath();
        }
    }

    private final CuratorFramework client;
    private final Paths.LockPath path;
    private final Mutex mutex;
    private final Writing writing;
    private final Reading reading;
    private final InterProcessSemaphoreV2 semaphore;

    /** All of them, since that costs no request; which are used is for the mix to say. */
    Recipes(CuratorFramework client, Paths.LockPath path) {
        this.client = client;
        this.path = path;
        mutex = new Mutex(client, path.path());
        writing = new Writing(client, path.path());
        reading = new Reading(client, path.path(), writing);
        semaphore = new InterProcessSemaphoreV2(client, path.path(), path.capacity());
    }

    /** Null if the time went by. */
    Held lock(long millis) throws Exception {
        return take(mutex, Mode.EXCLUSIVE, millis);
    }

    Held write(long millis) throws Exception {
        return take(writing, Mode.EXCLUSIVE, millis);
    }

    Held read(long millis) throws Exception {
        return take(reading, Mode.SHARED, millis);
    }

    Held permits(int count, long millis) throws Exception {
        Collection<Lease> leases = millis == FOREVER
                ? semaphore.acquire(count)
                : semaphore.acquire(count, millis, TimeUnit.MILLISECONDS);
        if (leases == null) {
            return null;
        }
        List<String> nodes = leases.stream().map(Lease::getNodeName).toList();
        Part part = new Part(path, Mode.permits(count), nodes);
        return new Held(List.of(part), Executors.callable(() -> semaphore.returnAll(leases)));
    }

    /** What ZooKeeper knows of the first node. Null if it is gone. */
    Stat look(Part part) throws Exception {
        return client.checkExists().forPath(path.path() + "/" + part.nodes().get(0));
    }

    boolean isOfThisSession(Stat node) throws Exception {
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        return node.getEphemeralOwner() == session;
    }

    /** Enters what is held once more, and leaves again. */
    Void reEnter(Mode mode) throws Exception {
        InterProcessLock lock = mode.isShared() ? reading : mutex;
        lock.acquire();
        return release(lock);
    }

    /**
     * Several mutexes. Curator takes them in the order in which they are given, so it is one that
     * all agree on.
     */
    static Held several(List<Recipes> members, long millis) throws Exception {
        List<Recipes> sorted = new ArrayList<>(members);
        sorted.sort(Comparator.comparing(member -> member.path.number()));
        List<InterProcessLock> mutexes = new ArrayList<>();
        sorted.forEach(member -> mutexes.add(member.mutex));
        InterProcessMultiLock all = new InterProcessMultiLock(mutexes);
        if (!acquire(all, millis)) {
            return null;
        }
        List<Part> parts =
                members.stream().map(member -> member.part(member.mutex, Mode.EXCLUSIVE)).toList();
        return new Held(parts, () -> release(all));
    }

    private Held take(Shown lock, Mode mode, long millis) throws Exception {
        if (!acquire(lock, millis)) {
            return null;
        }
        return new Held(List.of(part(lock, mode)), () -> release(lock));
    }

    private Part part(Shown lock, Mode mode) {
        String node = lock.node();
        return new Part(path, mode, List.of(node.substring(node.lastIndexOf('/') + 1)));
    }

    private static Void release(InterProcessLock lock) throws Exception {
        lock.release();
        return null;
    }

    private static boolean acquire(InterProcessLock lock, long millis) throws Exception {
        if (millis == FOREVER) {
            lock.acquire();
            return true;
        }
        return lock.acquire(millis, TimeUnit.MILLISECONDS);
    }
}
