import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.framework.state.ConnectionStateListener;

/**
 * What Curator's documentation tells the owner of a lock to do: listen to the state of the
 * connection, and stop at {@code SUSPENDED} and at {@code LOST}.
 */
final class Ownership implements ConnectionStateListener {
    /** One hold, as long as nothing speaks against it. */
    static final class Hold {
        private final Object id;
        private final Witness witness;
        private final Coordinator coordinator;
        private volatile boolean lost;

        Hold(Object id, Witness witness, Coordinator coordinator) {
            this.id = id;
            this.witness = witness;
            this.coordinator = coordinator;
        }

        boolean isHeld() {
            return !lost;
        }

        private void lose(String reason) {
            long at = System.nanoTime();
            lost = true;
            letGo();
            coordinator.report("Lost", Coordinator.object("hold", id, "at", at, "reason", reason));
        }

        void letGo() {
            try {
                witness.letGo();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private final Set<Hold> open = new HashSet<>();
    private final Gate gate;
    private ConnectionState state = ConnectionState.LOST;
    private int connections;

    Ownership(Gate gate) {
        this.gate = gate;
    }

    synchronized int connections() {
        return connections;
    }

    /** Of what was granted while the connection is not there, nobody can be sure either. */
    synchronized void begin(Hold hold) {
        if (state.isConnected()) {
            open.add(hold);
        } else {
            hold.lose(state.name());
        }
    }

    synchronized void lose(Hold hold, String reason) {
        if (open.remove(hold)) {
            hold.lose(reason);
        }
    }

    /** It is about to be given back. */
    synchronized void end(Hold hold) {
        open.remove(hold);
        hold.letGo();
    }

    @Override
    public synchronized void stateChanged(CuratorFramework client, ConnectionState now) {
        state = now;
        if (now.isConnected()) {
            connections++;
            return;
        }
        open.forEach(hold -> hold.lose(now.name()));
        open.clear();
        gate.wake();
    }
}
