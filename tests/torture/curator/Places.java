import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** The places of the locks, as the parent names them on the command line. */
final class Places {
    static final String ROOT = "/torture/";

    /** One; {@code room} is that of a semaphore. */
    record Place(int number, String name, String use, int room, String traffic) {
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
        int witnesses() {
            return switch (use) {
                case "semaphore" -> room;
                case "read-write" -> 2;
                default -> 1;
            };
        }
    }

    private Places() {}

    /** What places::described() in examples/torture/places.rs gives. */
    static List<Place> parse(String described) {
        List<Place> places = new ArrayList<>();
        for (String one : described.split(",")) {
            String[] words = one.split(":");
            int room = Integer.parseInt(words[2]);
            places.add(new Place(places.size(), words[0], words[1], room, words[3]));
        }
        return places;
    }

    /** Some place of a kind with this traffic. */
    static Place pick(List<Place> places, SplittableRandom random, String kind, String traffic) {
        List<Place> fitting = places.stream()
                .filter(place -> place.takes(kind) && place.traffic().equals(traffic))
                .toList();
        return fitting.get(random.nextInt(fitting.size()));
    }
}
