/** How much of a place a hold takes: all of it, a reader's part, or so many permits. */
record Share(boolean isReading, int permits) {
    static final Share ALONE = new Share(false, 0);
    static final Share READING = new Share(true, 0);

    static Share permits(int count) {
        return new Share(false, count);
    }

    /** As examples/torture/places.rs has it. */
    Object json() {
        if (permits > 0) {
            return Parent.object("Permits", permits);
        }
        return isReading ? "Reading" : "Alone";
    }
}
