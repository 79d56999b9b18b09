import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * One thread of a client process, which takes locks and tells the coordinator everything: what
 * worker.rs and hold.rs of src/client do with zoolock.
 *
 * <p>Curator has no fencing tokens. The number of the write that made the participant's node rises
 * along the queue, so this reads it after the lock was granted and uses it as one. If the node is
 * gone by then, the hold is given up; if it is of a session before the one that the client has,
 * the servers will delete it, and the coordinator is told that much.
 */
final class Worker {
    private static final int MOST_WRITES = 3;
    private static final int LONGEST_LOOK_MILLIS = 25;
    private static final int LONGEST_REST_MILLIS = 120;

    /** One lock of what was granted; no token if it writes nothing. */
    private record Holding(Object id, Ownership.Hold hold, Mode mode, Long token) {}

    /** No number if it could not be read. */
    private record Token(Long number, String remark) {
        private static final Token NONE = new Token(null, "");
    }

    private final CuratorClient process;
    private final int thread;
    private final Map<String, Object> me;
    private final Coordinator coordinator;
    private int phase;
    private int holds;

    Worker(CuratorClient process, int thread) throws IOException {
        this.process = process;
        this.thread = thread;
        me = Coordinator.object("process", process.process,
                "incarnation", process.incarnation, "thread", thread);
        coordinator = Coordinator.connect(process.folder);
        coordinator.report("Worker", me);
    }

    void work() {
        try {
            coordinator.report("Ready");
            for (String begin = coordinator.reply();
                    !begin.contains("Finish");
                    begin = coordinator.reply()) {
                phase = Coordinator.number(begin, "phase");
                work(begin.contains("true"));
                coordinator.report("Ready");
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void work(boolean deaths) throws Exception {
        long seed = process.seed;
        for (long part : new long[] {process.process, process.incarnation, thread, phase}) {
            seed = new SplittableRandom(Long.rotateLeft(seed, 17) ^ part).nextLong();
        }
        SplittableRandom random = new SplittableRandom(seed);
        while (process.gate.isOpen(phase)) {
            boolean mayDie = deaths && process.spared < phase;
            take(Operations.pick(process.kinds, random, mayDie), random);
            rest(random.nextInt(LONGEST_REST_MILLIS + 1));
        }
    }

    private void take(Operations.Op op, SplittableRandom random) throws Exception {
        List<Paths.LockPath> paths = Operations.paths(op, process.paths, random);
        List<Recipes> at =
                paths.stream().map(path -> process.locks[path.number()]).toList();
        int permits = Operations.permits(op, paths.get(0), random);
        long time = random.nextInt(1, op.work() == Operations.Work.LONG ? 1001 : 151);
        long millis = switch (op.patience()) {
            case FOREVER -> Recipes.FOREVER;
            case GIVEN -> time;
            case ANSWER -> 0;
        };
        if (op.patience() == Operations.Patience.GIVEN) {
            process.nap(TimeUnit.MILLISECONDS.toNanos(time));
        }
        int path = paths.get(0).number();
        long started = System.nanoTime();
        Recipes.Held held = timed(op.name(), path, bound(op, paths.size(), time),
                () -> op.take().from(at, permits, millis));
        if (held != null) {
            hold(op, held, started, random);
        }
    }

    /** The same that zoolock's calls have to keep. */
    private Long bound(Operations.Op op, int paths, long millis) {
        long answer = process.timeoutNanos / 3;
        int members = paths > 1 ? paths : 0;
        return switch (op.patience()) {
            case FOREVER -> null;
            case GIVEN -> TimeUnit.MILLISECONDS.toNanos(millis) + answer * members;
            case ANSWER -> answer * Math.max(1, 2 * members);
        };
    }

    /** Makes a call that the coordinator can see while it lasts. Null if it fails. */
    private <T> T timed(String op, int path, Long patience, Callable<T> call) {
        long started = System.nanoTime();
        Long deadline = patience == null ? null : Long.valueOf(started + patience);
        process.calls.set(thread, new CuratorClient.InFlight(op, path, started, deadline));
        T result = null;
        try {
            result = call.call();
        } catch (Exception error) {
            tell(op, path, error);
        }
        long ended = System.nanoTime();
        process.calls.set(thread, null);
        coordinator.report("Called", Coordinator.object("op", op, "path", path, "started", started,
                "deadline", deadline, "ended", ended));
        return result;
    }

    /** What ZooKeeper said is no fault of Curator's, however deep it is wrapped up. */
    private void tell(String op, int path, Exception error) {
        Throwable cause = error;
        while (cause != null && !(cause instanceof KeeperException)) {
            cause = cause.getCause();
        }
        if (cause == null) {
            coordinator.report("Unexpected", "p%d.%d/t%d: %s at %s: %s".formatted(
                    process.process, process.incarnation, thread, op,
                    process.paths.get(path).path(), error));
        }
    }

    private void hold(Operations.Op op, Recipes.Held held, long started, SplittableRandom random)
            throws IOException {
        long at = System.nanoTime();
        // All before the first request: a hold may be lost while that takes its time.
        List<Witness> witnesses = new ArrayList<>();
        for (Recipes.Part part : held.parts()) {
            witnesses.add(Witness.take(process.folder, part.path(), part.mode()));
        }
        List<Holding> holdings = new ArrayList<>();
        for (int member = 0; member < witnesses.size(); member++) {
            holdings.add(begin(op, held.parts().get(member), witnesses.get(member), member,
                    started, at));
        }
        if (op.work() == Operations.Work.DIE) {
            coordinator.report("Dying", Coordinator.object("at", System.nanoTime()));
            Runtime.getRuntime().halt(1);
        }
        workWith(op, holdings, random);
        Recipes.Part first = held.parts().get(0);
        int path = first.path().number();
        if (op.work() == Operations.Work.TWICE) {
            timed("re-entry", path, 0L, () -> process.locks[path].reEnter(first.mode()));
        }
        end(held, holdings, path);
    }

    /** Tells of a grant, and has it watched. */
    private Holding begin(Operations.Op op, Recipes.Part part, Witness witness, int member,
            long started, long at) {
        holds++;
        Object id = Coordinator.object("by", me, "number", holds);
        Ownership.Hold hold = new Ownership.Hold(id, witness, coordinator);
        boolean alone = witness.isComplete();
        process.ownership.begin(hold);
        boolean sound = hold.isHeld();
        Token token = part.mode().equals(Mode.EXCLUSIVE) ? token(part, hold) : Token.NONE;
        Map<String, Object> grant = Coordinator.object("hold", id, "under", null, "kind", op.kind(),
                "path", part.path().number(), "mode", part.mode().json(), "member", member,
                "op", op.name() + token.remark(), "waited", op.isForever(),
                "nodes", part.nodes(), "token", token.number(), "started", started, "at", at,
                "still_held", sound, "witness_free", alone);
        coordinator.report("Granted", grant);
        return new Holding(id, hold, part.mode(), token.number());
    }

    private Token token(Recipes.Part part, Ownership.Hold hold) {
        Recipes recipes = process.locks[part.path().number()];
        Token token = timed("token", part.path().number(), null, () -> {
            Stat node = recipes.look(part);
            if (node == null) {
                process.ownership.lose(hold, "its node is gone");
                return Token.NONE;
            }
            boolean sure = recipes.isOfThisSession(node);
            return new Token(node.getCzxid(), sure ? "" : ", by the node of a session before");
        });
        return token == null ? Token.NONE : token;
    }

    /** With writes at all paths that take them. */
    private void workWith(Operations.Op op, List<Holding> on, SplittableRandom random) {
        for (int writes = random.nextInt(1, MOST_WRITES + 1); writes > 0; writes--) {
            on.forEach(this::write);
        }
        if (on.stream().noneMatch(holding -> holding.mode().equals(Mode.EXCLUSIVE))) {
            workFor(on, TimeUnit.MILLISECONDS.toNanos(random.nextInt(LONGEST_LOOK_MILLIS + 1)));
        }
        if (op.work() == Operations.Work.LONG) {
            workFor(on, (long) (process.timeoutNanos * (0.2 + random.nextDouble() * 2.8)));
            on.forEach(this::write);
        }
    }

    /** Looks whether the lock is held, and writes. */
    private void write(Holding on) {
        if (on.token() == null || !on.hold().isHeld()) {
            return;
        }
        if (process.armed.getAndSet(false)) {
            coordinator.report("AboutToWrite", Coordinator.object("hold", on.id()));
            coordinator.reply();
        }
        coordinator.report("Write", Coordinator.object("hold", on.id(), "token", on.token()));
        coordinator.reply();
    }

    /** Works with the locks, until one of them is lost. */
    private void workFor(List<Holding> on, long nanos) {
        process.gate.await(phase, nanos,
                () -> on.stream().anyMatch(holding -> !holding.hold().isHeld()));
    }

    /** Gives everything back. Curator does not say whether it was still held. */
    private void end(Recipes.Held held, List<Holding> on, int path) {
        on.forEach(holding -> process.ownership.end(holding.hold()));
        long at = System.nanoTime();
        on.forEach(holding ->
                coordinator.report("Leaving", Coordinator.object("hold", holding.id(), "at", at)));
        timed("unlock", path, null, held.release());
        on.forEach(holding ->
                coordinator.report("Ended",
                        Coordinator.object("hold", holding.id(), "unlocked", "Silent")));
    }

    private void rest(int millis) {
        process.gate.await(phase, TimeUnit.MILLISECONDS.toNanos(millis), () -> false);
    }
}
