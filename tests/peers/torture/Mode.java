/** How much of a path a hold takes: all of it, a reader's part, or so many permits. */
record Mode(boolean isShared, int permits) {
    static final Mode EXCLUSIVE = new Mode(false, 0);
    static final Mode SHARED = new Mode(true, 0);

    static Mode permits(int count) {
        return new Mode(false, count);
    }

    /** As src/paths.rs has it. */
    Object json() {
        if (permits > 0) {
            return Coordinator.object("Permits", permits);
        }
        return isShared ? "Shared" : "Exclusive";
    }
}
