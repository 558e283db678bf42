// The data adapter of the contract; its twins are in ../in_process.py, ../sdk_adapter.py and ../node/adapter.cjs.

import com.lightstreamer.adapters.remote.DataProvider;
import com.lightstreamer.adapters.remote.DiffAlgorithm;
import com.lightstreamer.adapters.remote.ItemEventListener;
import com.lightstreamer.adapters.remote.SubscriptionException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

final class Data implements DataProvider {
    private final Map<String, Object> states;
    private volatile ItemEventListener listener;
    private volatile boolean pumping;
    private Thread pump;
    private long count;
    // Whose snapshot has been sent: nothing else of an item may come before it.
    private final Set<String> live = ConcurrentHashMap.newKeySet();

    Data(Map<String, Object> states) {
        this.states = new ConcurrentHashMap<>(states);
    }

    @Override
    public void init(Map<String, String> parameters, String configuration) {
        Adapter.tell("init", "parameters", parameters);
    }

    @Override
    public void setListener(ItemEventListener given) {
        listener = given;
    }

    @Override
    public boolean isSnapshotAvailable(String item) {
        return !item.startsWith("plain");
    }

    @Override
    @SuppressWarnings("unchecked")
    public void subscribe(String item) throws SubscriptionException {
        Adapter.tell("subscribe", "item", item);
        if (item.equals("refused")) {
            throw new SubscriptionException("no such item");
        }
        if (item.equals("broken")) {
            throw new IllegalStateException("a mistake");
        }
        if (item.startsWith("patched")) {
            listener.declareFieldDiffOrder(item, Map.of("x", new DiffAlgorithm[] {DiffAlgorithm.JSONPATCH}));
        }
        List<Object> events = (List<Object>) states.get(item);
        if (events != null) {
            for (Object event : events) {
                listener.update(item, (Map<String, Object>) event, true);
            }
            listener.endOfSnapshot(item);
        }
        live.add(item);
    }

    @Override
    public void unsubscribe(String item) {
        live.remove(item);
        Adapter.tell("unsubscribe", "item", item);
    }

    @SuppressWarnings("unchecked")
    void obey(Map<String, Object> command) throws InterruptedException {
        String item = (String) command.get("item");
        switch ((String) command.get("do")) {
            case "state" -> {
                states.put(item, command.get("events"));
                Adapter.tell("state", "item", item);
            }
            case "update" ->
                listener.update(item, (Map<String, Object>) command.get("event"), (Boolean) command.get("snapshot"));
            case "end" -> listener.endOfSnapshot(item);
            case "clear" -> listener.clearSnapshot(item);
            case "pump" -> {
                pumping = true;
                pump = new Thread(() -> pump((List<String>) command.get("items")));
                pump.start();
            }
            case "halt" -> {
                pumping = false;
                pump.join();
                Adapter.tell("halted", "count", count);
            }
            default -> throw new IllegalArgumentException("unknown command");
        }
    }

    private void pump(List<String> items) {
        while (pumping) {
            count += 1;
            for (String item : items) {
                if (live.contains(item)) {
                    listener.update(item, Map.of("n", Long.toString(count)), false);
                }
            }
            try {
                Thread.sleep(1);
            } catch (InterruptedException stop) {
                return;
            }
        }
    }
}
