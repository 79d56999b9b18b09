import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Does one of everything by Java's own client: `java -cp ... SayEverything.java HOST:PORT ROOT`.
 *
 * The test `bytes` runs it against a relay that records what it sends, and `script.rs` does the
 * same by our client. After each step it prints the step's name and waits for a line, so that
 * what it sent is known by that name. `cut` asks for the connection to be cut.
 */
public final class SayEverything {
    private static final int SESSION_TIMEOUT = 30_000;
    private static final int SOON = 60_000;
    private static final long HOUR = 3_600_000;
    private static final byte[] CREDENTIALS = bytes("user:secret");

    private static final Scanner go = new Scanner(System.in, StandardCharsets.UTF_8);
    /** Only the session's events: each watch has a watcher of its own. */
    private static final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();

    private static ZooKeeper zk;
    private static String root;

    public static void main(String[] arguments) throws Exception {
        String server = arguments[0];
        root = arguments[1];
        everything(server);
        resumed(server);
        belowARoot(server);
    }

    private static void everything(String server) throws Exception {
        connect(server);
        done("connect");

        create("root", "", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        byte[] data = bytes("some data");
        List<ACL> open = Ids.OPEN_ACL_UNSAFE;
        create("persistent", "/persistent", data, open, CreateMode.PERSISTENT);
        create("ephemeral", "/ephemeral", data, open, CreateMode.EPHEMERAL);
        create("sequential", "/seq-", data, open, CreateMode.PERSISTENT_SEQUENTIAL);
        create("ephemeral sequential", "/eseq-", data, open, CreateMode.EPHEMERAL_SEQUENTIAL);
        create("container", "/container", data, open, CreateMode.CONTAINER);
        zk.create(root + "/ttl", data, open, CreateMode.PERSISTENT_WITH_TTL, new Stat(), HOUR);
        done("create with TTL");
        zk.create(root + "/tseq-", data, open, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
                new Stat(), HOUR + 1);
        done("create sequential with TTL");
        create("empty", "/empty", new byte[0], open, CreateMode.PERSISTENT);
        byte[] every = new byte[256];
        for (int value = 0; value < every.length; value++) {
            every[value] = (byte) value;
        }
        create("with every byte", "/every-byte", every, open, CreateMode.PERSISTENT);
        // Of one, two and three bytes in UTF-8.
        create("non-ASCII", "/stra\u00dfe-\u043a\u043b\u044e\u0447-\u9375", bytes("\u9375"), open,
                CreateMode.PERSISTENT);
        create("for all to read", "/read-only", data, Ids.READ_ACL_UNSAFE, CreateMode.PERSISTENT);
        create("with several ACLs", "/several", data, several(), CreateMode.PERSISTENT);

        zk.exists(root + "/persistent", false);
        done("exists");
        zk.exists(root + "/missing", false);
        done("exists, missing");
        zk.exists(root + "/persistent", ignored());
        done("exists with watch");
        zk.exists(root + "/missing", ignored());
        done("exists with watch, missing");
        zk.getData(root + "/persistent", false, new Stat());
        done("get data");
        zk.getData(root + "/persistent", ignored(), new Stat());
        done("get data with watch");
        zk.getChildren(root, false, new Stat());
        done("get children");
        zk.getChildren(root, ignored(), new Stat());
        done("get children with watch");
        zk.setData(root + "/persistent", bytes("other"), -1);
        done("set data");
        zk.setData(root + "/persistent", bytes("yet another"), 1);
        done("set data of a version");
        zk.setData(root + "/persistent", new byte[0], -1);
        done("set data, empty");
        zk.getACL(root + "/several", new Stat());
        done("get ACL");
        zk.setACL(root + "/ephemeral", several(), -1);
        done("set ACL");
        zk.setACL(root + "/empty", open, 0);
        done("set ACL of a version");
        sync(root + "/persistent");
        done("sync");

        zk.multi(List.of(
                Op.create(root + "/m", data, open, CreateMode.PERSISTENT),
                Op.setData(root + "/m", bytes("other"), 0),
                Op.check(root + "/m", 1),
                Op.delete(root + "/m", 1)));
        done("multi");
        zk.multi(List.of(
                Op.create(root + "/m-", data, several(), CreateMode.PERSISTENT_SEQUENTIAL),
                Op.create(root + "/me", data, open, CreateMode.EPHEMERAL),
                Op.create(root + "/me-", data, open, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.create(root + "/mc", new byte[0], open, CreateMode.CONTAINER),
                Op.setData(root + "/persistent", new byte[0], -1),
                Op.delete(root + "/me", -1)));
        done("multi of other modes");
        zk.multi(List.of(
                Op.create(root + "/mt", data, open, CreateMode.PERSISTENT_WITH_TTL, HOUR),
                Op.create(root + "/mt-", data, open, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
                        HOUR + 1)));
        done("multi with TTL");
        refused(() -> zk.multi(List.of(Op.check(root + "/missing", 0))));
        done("multi, refused");

        authenticate();
        done("add auth");
        create("for its creator", "/own", data, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);

        zk.delete(root + "/container", -1);
        done("delete");
        zk.delete(root + "/empty", 0);
        done("delete of a version");
        refused(() -> zk.delete(root + "/missing", -1));
        done("delete, refused");
        zk.close();
        done("close");
    }

    /** A session with credentials and watches of all kinds, and then with none left. */
    private static void resumed(String server) throws Exception {
        connect(server);
        authenticate();
        done("connect with auth");
        cutAndResume("resume with auth");
        zk.getData(root + "/persistent", ignored(), new Stat());
        zk.getData(root + "/several", ignored(), new Stat());
        zk.exists(root + "/read-only", ignored());
        zk.exists(root + "/missing", ignored());
        zk.exists(root + "/missing too", ignored());
        zk.getChildren(root, ignored(), new Stat());
        zk.getChildren(root + "/own", ignored(), new Stat());
        done("watch");
        // Neither of these is a watch any more.
        zk.getData(root + "/ttl", ignored(), new Stat());
        zk.setData(root + "/ttl", new byte[0], -1);
        refused(() -> zk.getData(root + "/never", ignored(), new Stat()));
        done("watches that end at once");
        cutAndResume("resume with auth and watches");
        cutAndResume("resume once more");
        zk.close();
        done("close after resuming");
    }

    /** With a root in the connect string. */
    private static void belowARoot(String server) throws Exception {
        connect(server + root);
        done("connect below a root");
        cutAndResume("resume below a root");
        zk.create("/below", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, new Stat());
        done("create below a root");
        zk.exists("/", false);
        done("exists below a root");
        sync("/");
        done("sync below a root");
        zk.multi(List.of(
                Op.create("/m", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.check("/m", 0),
                Op.setData("/m", new byte[0], 0),
                Op.delete("/m", 1)));
        done("multi below a root");
        zk.getData("/below", ignored(), new Stat());
        zk.exists("/missing", ignored());
        zk.getChildren("/", ignored(), new Stat());
        done("watch below a root");
        cutAndResume("resume below a root with watches");
        zk.delete("/below", -1);
        done("delete below a root");
        zk.close();
        done("close below a root");
    }

    private static void connect(String server) throws Exception {
        states.clear();
        zk = new ZooKeeper(server, SESSION_TIMEOUT, event -> states.add(event.getState()));
        await(KeeperState.SyncConnected);
    }

    private static void cutAndResume(String step) throws Exception {
        done("cut");
        await(KeeperState.Disconnected);
        await(KeeperState.SyncConnected);
        // Goes out after whatever the client says by itself.
        zk.exists("/", false);
        done(step);
    }

    private static void create(String what, String path, byte[] data, List<ACL> acl,
            CreateMode mode) throws Exception {
        zk.create(root + path, data, acl, mode, new Stat());
        done("create " + what);
    }

    /** Java sends credentials without waiting; the next request goes out after them. */
    private static void authenticate() throws Exception {
        zk.addAuthInfo("digest", CREDENTIALS);
        zk.exists("/", false);
    }

    private static void sync(String path) throws Exception {
        CompletableFuture<Integer> answer = new CompletableFuture<>();
        zk.sync(path, (code, ofPath, context) -> answer.complete(code), null);
        int code = answer.get(SOON, TimeUnit.MILLISECONDS);
        if (code != KeeperException.Code.OK.intValue()) {
            throw KeeperException.create(KeeperException.Code.get(code), path);
        }
    }

    private static List<ACL> several() {
        List<ACL> acl = new ArrayList<>(Ids.OPEN_ACL_UNSAFE);
        acl.add(new ACL(Perms.READ | Perms.WRITE, new Id("digest", "user:aGFzaA==")));
        acl.add(new ACL(Perms.CREATE | Perms.DELETE, new Id("ip", "127.0.0.1")));
        acl.add(new ACL(Perms.ADMIN, new Id("digest", "\u043a\u043b\u044e\u0447:aGFzaA==")));
        return acl;
    }

    private static Watcher ignored() {
        return event -> { };
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private interface Request {
        void send() throws Exception;
    }

    private static void refused(Request request) throws Exception {
        try {
            request.send();
        } catch (KeeperException expected) {
            return;
        }
        throw new IllegalStateException("was not refused");
    }

    private static void await(KeeperState state) throws Exception {
        KeeperState next;
        do {
            next = states.poll(SOON, TimeUnit.MILLISECONDS);
            if (next == null) {
                throw new TimeoutException("no " + state);
            }
        } while (next != state);
    }

    private static void done(String step) {
        System.out.println(step);
        System.out.flush();
        // Nothing more to read: it is tried out by hand.
        if (go.hasNextLine()) {
            go.nextLine();
        }
    }
}
