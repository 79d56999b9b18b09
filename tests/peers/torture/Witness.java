import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The witness of a hold, by the rules of src/client/witness.rs.
 *
 * <p>Java's file locks belong to the process and not to an open file, and are gone when the process
 * closes any channel of the file. So each file is opened once and stays open, and a table keeps the
 * threads of the process apart.
 */
final class Witness {
    private static final Map<Path, Witnessing> FILES = new HashMap<>();

    /** One file, as this process has it. */
    private static final class Witnessing {
        private final FileChannel channel;
        private FileLock lock;
        private int owners;

        private Witnessing(Path path) throws IOException {
            channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
        }

        private boolean take(boolean shared) throws IOException {
            if (owners == 0) {
                lock = channel.tryLock(0, Long.MAX_VALUE, shared);
            }
            boolean got = lock != null && (owners == 0 || shared && lock.isShared());
            owners += got ? 1 : 0;
            return got;
        }

        private void letGo() throws IOException {
            owners--;
            if (owners == 0) {
                lock.release();
                lock = null;
            }
        }
    }

    private final List<Witnessing> files = new ArrayList<>();
    private final boolean complete;

    private Witness(Path folder, Paths.LockPath at, Mode mode) throws IOException {
        int all = at.witnessFiles();
        int numbers = mode.isShared() ? 1 : all;
        int wanted = mode.permits() > 0 ? mode.permits() : numbers;
        for (int number = 0; number < numbers && files.size() < wanted; number++) {
            Path path = folder.resolve("witness-" + at.name() + "-" + number);
            Witnessing file = FILES.get(path);
            if (file == null) {
                file = new Witnessing(path);
                FILES.put(path, file);
            }
            if (file.take(mode.isShared())) {
                files.add(file);
            }
        }
        complete = files.size() == wanted;
        if (!complete && mode.permits() == 0) {
            letGo();
        }
    }

    static Witness take(Path folder, Paths.LockPath at, Mode mode) throws IOException {
        synchronized (FILES) {
            return new Witness(folder, at, mode);
        }
    }

    /** Everything could be had that should have been free. */
    boolean isComplete() {
        return complete;
    }

    void letGo() throws IOException {
        synchronized (FILES) {
            for (Witnessing file : files) {
                file.letGo();
            }
            files.clear();
        }
    }
}
