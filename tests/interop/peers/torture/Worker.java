import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;

/**
 * One thread of a client process, which takes locks and tells the parent everything: what
 * examples/torture/worker.rs, stay.rs and leave.rs do with zoolock.
 *
 * <p>Curator has no fencing tokens. The number of the write that made the participant's node rises
 * along the queue, so this reads it after the lock was granted and uses it as one. If the node is
 * gone by then, the hold is given up. An exception from a call is no fault: it was not granted.
 */
final class Worker {
    private static final int MOST_WRITES = 3;
    private static final int LONGEST_LOOK_MILLIS = 25;
    private static final int LONGEST_REST_MILLIS = 120;

    /** One lock of what was granted; no token if it writes nothing. */
    private record Holding(Object id, Ownership.Hold hold, Share share, Long token) {}

    private final CuratorTorture process;
    private final int thread;
    private final Map<String, Object> me;
    private final Parent parent;
    private int phase;
    private int holds;

    Worker(CuratorTorture process, int thread) throws IOException {
        this.process = process;
        this.thread = thread;
        me = Parent.object("process", process.process, "life", process.life, "thread", thread);
        parent = Parent.connect(process.folder);
        parent.say("Worker", me);
    }

    void work() {
        try {
            parent.say("Next");
            for (String turn = parent.hear(); !turn.contains("Finish"); turn = parent.hear()) {
                phase = Parent.number(turn, "phase");
                work(turn.contains("true"));
                parent.say("Next");
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void work(boolean deaths) throws Exception {
        long seed = process.seed;
        for (long part : new long[] {process.process, process.life, thread, phase}) {
            seed = new SplittableRandom(Long.rotateLeft(seed, 17) ^ part).nextLong();
        }
        SplittableRandom random = new SplittableRandom(seed);
        while (process.gate.isOpen(phase)) {
            take(Mix.pick(process.kinds, random, deaths), random);
            rest(random.nextInt(LONGEST_REST_MILLIS + 1));
        }
    }

    private void take(Mix.Op op, SplittableRandom random) throws Exception {
        List<Places.Place> places = Mix.places(op, process.places, random);
        List<Recipes> at =
                places.stream().map(place -> process.locks[place.number()]).toList();
        int permits = Mix.permits(op, places.get(0), random);
        long time = random.nextInt(1, op.stay() == Mix.Stay.LONG ? 1001 : 151);
        long millis = switch (op.patience()) {
            case FOREVER -> Recipes.FOREVER;
            case GIVEN -> time;
            case ANSWER -> 0;
        };
        if (op.patience() == Mix.Patience.GIVEN) {
            process.nap(TimeUnit.MILLISECONDS.toNanos(time));
        }
        int path = places.get(0).number();
        Recipes.Held[] held = {null};
        long started = System.nanoTime();
        timed(op.name(), path, bound(op, places.size(), time),
                () -> held[0] = op.take().from(at, permits, millis));
        if (held[0] != null) {
            hold(op, held[0], started, random);
        }
    }

    /** The same that zoolock's calls have to keep. */
    private Long bound(Mix.Op op, int places, long millis) {
        long answer = process.timeoutNanos / 3;
        int members = places > 1 ? places : 0;
        return switch (op.patience()) {
            case FOREVER -> null;
            case GIVEN -> TimeUnit.MILLISECONDS.toNanos(millis) + answer * members;
            case ANSWER -> answer * Math.max(1, 2 * members);
        };
    }

    /** Makes a call that the parent can see while it lasts. */
    private void timed(String op, int path, Long patience, Recipes.Action call) {
        long started = System.nanoTime();
        Long deadline = patience == null ? null : Long.valueOf(started + patience);
        process.calls.set(thread, new CuratorTorture.InFlight(op, path, started, deadline));
        try {
            call.run();
        } catch (Exception error) {
            String name = op + ": " + error.getClass().getSimpleName();
            process.failures.merge(name, 1, Integer::sum);
        }
        long ended = System.nanoTime();
        process.calls.set(thread, null);
        parent.say("Called", Parent.object("op", op, "path", path, "started", started,
                "deadline", deadline, "ended", ended));
    }

    private void hold(Mix.Op op, Recipes.Held held, long started, SplittableRandom random)
            throws IOException {
        long at = System.nanoTime();
        // All before the first request: a hold may be lost while that takes its time.
        List<Witness> witnesses = new ArrayList<>();
        for (Recipes.Part part : held.parts()) {
            witnesses.add(Witness.take(process.folder, part.place(), part.share()));
        }
        List<Holding> holdings = new ArrayList<>();
        for (int member = 0; member < witnesses.size(); member++) {
            holdings.add(begin(op, held.parts().get(member), witnesses.get(member), member,
                    started, at));
        }
        if (op.stay() == Mix.Stay.DIE) {
            parent.say("Dying", Parent.object("at", System.nanoTime()));
            Runtime.getRuntime().halt(1);
        }
        workWith(op, holdings, random);
        Recipes.Part first = held.parts().get(0);
        int path = first.place().number();
        if (op.stay() == Mix.Stay.TWICE) {
            timed("re-entry", path, 0L, () -> process.locks[path].reEnter(first.share()));
        }
        end(held, holdings, path);
    }

    /** Tells of a grant, and has it watched. */
    private Holding begin(Mix.Op op, Recipes.Part part, Witness witness, int member, long started,
            long at) {
        holds++;
        Object id = Parent.object("by", me, "number", holds);
        Ownership.Hold hold = new Ownership.Hold(id, witness, parent);
        boolean alone = witness.isComplete();
        process.ownership.begin(hold);
        boolean sound = hold.isHeld();
        Long token = part.share().equals(Share.ALONE) ? token(part, hold) : null;
        Map<String, Object> grant = Parent.object("hold", id, "under", null, "kind", op.kind(),
                "path", part.place().number(), "share", part.share().json(), "member", member,
                "op", op.name(), "waited", op.isForever(), "nodes", part.nodes(), "token", token,
                "started", started, "at", at, "sound", sound, "alone", alone);
        parent.say("Granted", grant);
        return new Holding(id, hold, part.share(), token);
    }

    private Long token(Recipes.Part part, Ownership.Hold hold) {
        int path = part.place().number();
        Long[] token = {null};
        timed("token", path, null, () -> {
            token[0] = process.locks[path].token(part);
            if (token[0] == null) {
                process.ownership.lose(hold, "its node is gone");
            }
        });
        return token[0];
    }

    /** With writes at all places that take them. */
    private void workWith(Mix.Op op, List<Holding> on, SplittableRandom random) {
        for (int writes = random.nextInt(1, MOST_WRITES + 1); writes > 0; writes--) {
            on.forEach(this::write);
        }
        if (on.stream().noneMatch(holding -> holding.share().equals(Share.ALONE))) {
            stay(on, TimeUnit.MILLISECONDS.toNanos(random.nextInt(LONGEST_LOOK_MILLIS + 1)));
        }
        if (op.stay() == Mix.Stay.LONG) {
            stay(on, (long) (process.timeoutNanos * (0.2 + random.nextDouble() * 2.8)));
            on.forEach(this::write);
        }
    }

    /** Looks whether the lock is held, and writes. */
    private void write(Holding on) {
        if (on.token() == null || !on.hold().isHeld()) {
            return;
        }
        if (process.armed.getAndSet(false)) {
            parent.say("Checked", Parent.object("hold", on.id()));
            parent.hear();
        }
        parent.say("Write", Parent.object("hold", on.id(), "token", on.token()));
        parent.hear();
    }

    /** Works with the locks, until one of them is lost. */
    private void stay(List<Holding> on, long nanos) {
        process.gate.await(phase, nanos,
                () -> on.stream().anyMatch(holding -> !holding.hold().isHeld()));
    }

    /** Gives everything back. Curator does not say whether it was still held. */
    private void end(Recipes.Held held, List<Holding> on, int path) {
        on.forEach(holding -> process.ownership.end(holding.hold()));
        long at = System.nanoTime();
        on.forEach(holding ->
                parent.say("Leaving", Parent.object("hold", holding.id(), "at", at)));
        timed("unlock", path, null, held.release());
        on.forEach(holding ->
                parent.say("Ended", Parent.object("hold", holding.id(), "unlocked", "Silent")));
    }

    private void rest(int millis) {
        process.gate.await(phase, TimeUnit.MILLISECONDS.toNanos(millis), () -> false);
    }
}
