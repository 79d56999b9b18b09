import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/**
 * What a worker may do, and how often: src/kinds.rs and src/client/mix.rs, as far as Curator has a
 * counterpart. Where ours gives a guard as well as a lock, Curator's one way has the weight of
 * both. There are no writers that go on as readers, and no plain locks beside
 * readers: their weight is the writers'.
 *
 * <p>Who asks for several permits does not wait for them forever: Curator takes them one after the
 * other and lets others in between, so two who do can wait for each other until the end of time.
 */
final class Operations {
    /** When the call has to be back. */
    enum Patience { FOREVER, GIVEN, ANSWER }

    /** What is done with the lock. */
    enum Work { SHORT, LONG, TWICE, DIE }

    /** One line of the table. */
    record Op(String kind, int weight, String name, Patience patience, Work work, Take take) {
        boolean isForever() {
            return patience == Patience.FOREVER;
        }
    }

    interface Take {
        Recipes.Held from(List<Recipes> at, int permits, long millis) throws Exception;
    }

    private static final Take MUTEX = (at, permits, millis) -> at.get(0).lock(millis);
    private static final Take READ = (at, permits, millis) -> at.get(0).read(millis);
    private static final Take WRITE = (at, permits, millis) -> at.get(0).write(millis);
    private static final Take PERMITS = (at, permits, millis) -> at.get(0).permits(permits, millis);
    private static final Take SEVERAL = (at, permits, millis) -> Recipes.several(at, millis);

    private static final List<Op> ALL = List.of(
            op("exclusive", 550, "lock", Patience.FOREVER, Work.SHORT, MUTEX),
            op("exclusive", 350, "try_lock_for", Patience.GIVEN, Work.SHORT, MUTEX),
            op("exclusive", 150, "try_lock", Patience.ANSWER, Work.SHORT, MUTEX),
            op("exclusive", 6, "long lock", Patience.FOREVER, Work.LONG, MUTEX),
            op("exclusive", 40, "long try_lock_for", Patience.GIVEN, Work.LONG, MUTEX),
            op("exclusive", 2, "lock, then die", Patience.FOREVER, Work.DIE, MUTEX),

            op("reentrant", 400, "reentrant lock", Patience.FOREVER, Work.SHORT, MUTEX),
            op("reentrant", 100, "reentrant lock, twice", Patience.FOREVER, Work.TWICE, MUTEX),
            op("reentrant", 200, "reentrant try_lock_for", Patience.GIVEN, Work.SHORT, MUTEX),
            op("reentrant", 100, "reentrant try_lock", Patience.ANSWER, Work.SHORT, MUTEX),
            op("reentrant", 60, "long reentrant try_lock_for", Patience.GIVEN, Work.LONG, MUTEX),

            op("read-write", 350, "read lock", Patience.FOREVER, Work.SHORT, READ),
            op("read-write", 60, "read lock, twice", Patience.FOREVER, Work.TWICE, READ),
            op("read-write", 150, "read try_lock_for", Patience.GIVEN, Work.SHORT, READ),
            op("read-write", 80, "read try_lock", Patience.ANSWER, Work.SHORT, READ),
            op("read-write", 340, "write lock", Patience.FOREVER, Work.SHORT, WRITE),
            op("read-write", 80, "write try_lock_for", Patience.GIVEN, Work.SHORT, WRITE),
            op("read-write", 80, "write try_lock", Patience.ANSWER, Work.SHORT, WRITE),
            op("read-write", 60, "long read try_lock_for", Patience.GIVEN, Work.LONG, READ),
            op("read-write", 50, "long write try_lock_for", Patience.GIVEN, Work.LONG, WRITE),
            op("read-write", 6, "long write lock", Patience.FOREVER, Work.LONG, WRITE),
            op("read-write", 1, "read, then die", Patience.FOREVER, Work.DIE, READ),
            op("read-write", 1, "write, then die", Patience.FOREVER, Work.DIE, WRITE),

            op("semaphore", 550, "permits", Patience.FOREVER, Work.SHORT, PERMITS),
            op("semaphore", 250, "permits, try_acquire_for", Patience.GIVEN, Work.SHORT, PERMITS),
            op("semaphore", 250, "permits, try_acquire", Patience.ANSWER, Work.SHORT, PERMITS),
            op("semaphore", 10, "long permits", Patience.FOREVER, Work.LONG, PERMITS),
            op("semaphore", 120, "long permits, try_acquire_for", Patience.GIVEN, Work.LONG,
                    PERMITS),
            op("semaphore", 2, "permits, then die", Patience.FOREVER, Work.DIE, PERMITS),

            op("multi", 400, "several", Patience.FOREVER, Work.SHORT, SEVERAL),
            op("multi", 250, "several, try_lock_for", Patience.GIVEN, Work.SHORT, SEVERAL),
            op("multi", 200, "several, try_lock", Patience.ANSWER, Work.SHORT, SEVERAL),
            op("multi", 60, "long several, try_lock_for", Patience.GIVEN, Work.LONG, SEVERAL),
            op("multi", 2, "several, then die", Patience.FOREVER, Work.DIE, SEVERAL));

    private Operations() {}

    private static Op op(
            String kind, int weight, String name, Patience patience, Work work, Take take) {
        return new Op(kind, weight, name, patience, work, take);
    }

    private static int weight(String kind) {
        return switch (kind) {
            case "semaphore" -> 16;
            case "multi" -> 10;
            default -> 22;
        };
    }

    static Op pick(List<String> kinds, SplittableRandom random, boolean deaths) {
        int left = random.nextInt(kinds.stream().mapToInt(Operations::weight).sum());
        for (String kind : kinds) {
            if (left < weight(kind)) {
                return pick(kind, random, deaths);
            }
            left -= weight(kind);
        }
        throw new IllegalStateException("no kinds");
    }

    private static Op pick(String kind, SplittableRandom random, boolean deaths) {
        List<Op> mix = ALL.stream()
                .filter(op -> op.kind().equals(kind) && (deaths || op.work() != Work.DIE))
                .toList();
        int left = random.nextInt(mix.stream().mapToInt(Op::weight).sum());
        for (Op op : mix) {
            if (left < op.weight()) {
                return op;
            }
            left -= op.weight();
        }
        throw new IllegalStateException("no operations");
    }

    /** Where: of several members the first is the one that is told of. */
    static List<Paths.LockPath> paths(Op op, List<Paths.LockPath> all, SplittableRandom random) {
        int count = op.kind().equals("multi") ? random.nextInt(2, 4) : 1;
        return Stream.generate(() -> path(op, all, random))
                .distinct()
                .limit(count)
                .toList();
    }

    /** Long holds have paths of their own, where others look in now and then. */
    private static Paths.LockPath path(Op op, List<Paths.LockPath> all, SplittableRandom random) {
        int chance = random.nextInt(100);
        String traffic = "usual";
        if (op.work() == Work.LONG || chance >= 40 && chance < 48 && !op.isForever()) {
            traffic = "slow";
        } else if (chance < 40) {
            traffic = "hot";
        }
        return Paths.pick(all, random, op.kind(), traffic);
    }

    /** Mostly few, now and then all. */
    static int permits(Op op, Paths.LockPath path, SplittableRandom random) {
        if (op.isForever()) {
            return 1;
        }
        return switch (random.nextInt(10)) {
            case 0 -> path.capacity();
            case 1, 2, 3 -> random.nextInt(1, path.capacity() + 1);
            default -> random.nextInt(1, 3);
        };
    }
}
