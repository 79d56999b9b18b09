import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** The paths of the locks, as the coordinator names them on the command line. */
final class Paths {
    static final String ROOT = "/torture/";

    /** One; {@code capacity} is that of a semaphore. */
    record LockPath(int number, String name, String use, int capacity, String traffic) {
        String path() {
            return ROOT + name;
        }

        boolean takes(String kind) {
            return switch (kind) {
                case "exclusive", "reentrant", "multi" -> use.equals("exclusive");
                default -> use.equals(kind);
            };
        }

        /** How many files bear witness. */
        int witnessFiles() {
            return switch (use) {
                case "semaphore" -> capacity;
                case "read-write" -> 2;
                default -> 1;
            };
        }
    }

    private Paths() {}

    /** What describe() in src/coordinator/curator.rs gives. */
    static List<LockPath> parse(String described) {
        List<LockPath> paths = new ArrayList<>();
        for (String one : described.split(",")) {
            String[] words = one.split(":");
            int capacity = Integer.parseInt(words[2]);
            paths.add(new LockPath(paths.size(), words[0], words[1], capacity, words[3]));
        }
        return paths;
    }

    /** Some path of a kind with this traffic. */
    static LockPath pick(
            List<LockPath> paths, SplittableRandom random, String kind, String traffic) {
        List<LockPath> fitting = paths.stream()
                .filter(path -> path.takes(kind) && path.traffic().equals(traffic))
                .toList();
        return fitting.get(random.nextInt(fitting.size()));
    }
}
