import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** Lets the workers into a phase, and wakes them when it is over or a hold was lost. */
final class Gate {
    private int closed;

    synchronized boolean isOpen(int phase) {
        return phase > closed;
    }

    synchronized void close(int phase) {
        closed = phase;
        notifyAll();
    }

    /** Something has changed that a worker may wait for. */
    synchronized void wake() {
        notifyAll();
    }

    /** Until the time or the phase is over, or something is true that {@link #wake} tells of. */
    synchronized void await(int phase, long nanos, BooleanSupplier done) {
        long end = System.nanoTime() + nanos;
        try {
            for (long left = nanos; left > 0; left = end - System.nanoTime()) {
                if (!isOpen(phase) || done.getAsBoolean()) {
                    return;
                }
                TimeUnit.NANOSECONDS.timedWait(this, left);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void sleep(long nanos) {
        try {
            TimeUnit.NANOSECONDS.sleep(nanos);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
