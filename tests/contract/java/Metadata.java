// The metadata adapter of the contract; its twins are in ../in_process.py, ../sdk_adapter.py and ../node/adapter.cjs.

import com.lightstreamer.adapters.remote.AccessException;
import com.lightstreamer.adapters.remote.CreditsException;
import com.lightstreamer.adapters.remote.ItemsException;
import com.lightstreamer.adapters.remote.MetadataControlListener;
import com.lightstreamer.adapters.remote.MetadataProviderAdapter;
import com.lightstreamer.adapters.remote.Mode;
import com.lightstreamer.adapters.remote.MpnDeviceInfo;
import com.lightstreamer.adapters.remote.MpnSubscriptionInfo;
import com.lightstreamer.adapters.remote.NotificationException;
import com.lightstreamer.adapters.remote.SchemaException;
import com.lightstreamer.adapters.remote.SubscriptionStatistics;
import com.lightstreamer.adapters.remote.TableInfo;
import java.util.Map;

// What only this SDK can do, having a newer protocol: user `brief` has sessions of one second; statistics of subscriptions,
// and data adapter and items of push notifications, are reported; `end session` and `end subscription` are obeyed.
final class Metadata extends MetadataProviderAdapter {
    private volatile MetadataControlListener listener;
    private volatile TableInfo latest;

    @Override
    public void setListener(MetadataControlListener given) {
        listener = given;
    }

    boolean obeys(Map<String, Object> command) {
        String session = (String) command.get("session");
        if ("end session".equals(command.get("do"))) {
            listener.forceSessionTermination(session, -5, "enough").whenComplete(
                (done, error) -> Adapter.tell("ended", "session", session, "error", error == null ? null : "refused"));
            return true;
        }
        if ("end subscription".equals(command.get("do"))) {
            listener.forceUnsubscription(session, latest).whenComplete(
                (done, error) -> Adapter.tell("unsubscribed", "session", session, "done", String.valueOf(done)));
            return true;
        }
        return false;
    }

    @Override
    public int getSessionTimeToLive(String user, String session) {
        return "brief".equals(user) ? 1 : 0;
    }

    @Override
    public boolean enableTableUnsubscription(String session, TableInfo[] tables) {
        return true;
    }

    @Override
    public boolean wantsFinalTableStatistics(String session, TableInfo[] tables) {
        return true;
    }

    @Override
    public void init(Map<String, String> parameters, String configuration) {
        Adapter.tell("metadata init", "parameters", parameters);
    }

    @Override
    public void notifyUser(String user, String password, Map<String, String> headers)
            throws AccessException, CreditsException {
        Adapter.tell("user", "user", user, "password", password, "request", headers.get("REQUEST_ID"));
        if ("nobody".equals(user)) {
            throw new AccessException("no access");
        }
        if ("poor".equals(user)) {
            throw new CreditsException(-7, "no credit", "pay first");
        }
        if ("crash".equals(user)) {
            throw new IllegalStateException("a mistake");
        }
    }

    @Override
    public double getAllowedMaxBandwidth(String user) {
        return "slow".equals(user) ? 10 : 0;
    }

    @Override
    public boolean wantsTablesNotification(String user) {
        return !"quiet".equals(user);
    }

    @Override
    public void notifyNewSession(String user, String session, Map<String, String> context) throws CreditsException {
        Adapter.tell("session", "user", user, "session", session, "context", context);
        if ("late".equals(user)) {
            throw new CreditsException(-8, "closed", "too late");
        }
    }

    @Override
    public void notifySessionClose(String session) {
        Adapter.tell("session closed", "session", session);
    }

    @Override
    public String[] getItems(String user, String session, String group) throws ItemsException {
        if (group.equals("none")) {
            throw new ItemsException("no such group");
        }
        return group.equals("both") ? new String[] {"one", "two"} : group.split(" ");
    }

    @Override
    public String[] getSchema(String user, String session, String group, String schema) throws SchemaException {
        if (schema.equals("none")) {
            throw new SchemaException("no such schema");
        }
        return schema.split(" ");
    }

    @Override
    public boolean modeMayBeAllowed(String item, Mode mode) {
        return !item.equals("rawonly") || mode.equals(Mode.RAW);
    }

    @Override
    public int getDistinctSnapshotLength(String item) {
        return 3;
    }

    @Override
    public double getAllowedMaxItemFrequency(String user, String item) {
        return item.equals("limited") ? 2 : 0;
    }

    @Override
    public void notifyNewTables(String user, String session, TableInfo[] tables) throws CreditsException {
        latest = tables[0];
        tell("tables", session, tables);
        if (tables[0].getId().equals("forbidden")) {
            throw new CreditsException(-9, "no", "not for you");
        }
    }

    @Override
    public void notifyTablesClose(String session, TableInfo[] tables) {
        tell("tables closed", session, tables);
    }

    private static void tell(String event, String session, TableInfo[] tables) {
        for (TableInfo table : tables) {
            SubscriptionStatistics[] statistics = table.getSubscriptionStatistics();
            Long sent = statistics == null || statistics.length == 0 ? null : statistics[0].getTotRealTime();
            Adapter.tell(
                event, "session", session, "number", table.getWinIndex(), "group", table.getId(), "sent", sent);
        }
    }

    @Override
    public void notifyMpnDeviceAccess(String user, String session, MpnDeviceInfo device)
            throws CreditsException, NotificationException {
        Adapter.tell(
            "device", "user", user, "session", session, "platform", device.getType().getName(),
            "application", device.getApplicationId(), "token", device.getDeviceToken());
        if (device.getApplicationId().equals("poor")) {
            throw new CreditsException(-11, "no", "no devices");
        }
        if (device.getApplicationId().equals("unheard")) {
            throw new NotificationException("not heard");
        }
        if (device.getApplicationId().equals("crash")) {
            throw new IllegalStateException("a mistake");
        }
    }

    @Override
    public void notifyMpnDeviceTokenChange(String user, String session, MpnDeviceInfo device, String newToken)
            throws CreditsException {
        Adapter.tell(
            "new token", "session", session, "application", device.getApplicationId(),
            "token", device.getDeviceToken(), "new", newToken);
        if (newToken.equals("stolen")) {
            throw new CreditsException(-12, "no", "not yours");
        }
    }

    @Override
    public void notifyMpnSubscriptionActivation(
            String user, String session, TableInfo table, MpnSubscriptionInfo push) throws CreditsException {
        MpnDeviceInfo device = push.getDevice();
        Adapter.tell(
            "push", "session", session, "group", table.getId(), "schema", table.getSchema(),
            "mode", table.getMode().toString(), "platform", device.getType().getName(),
            "application", device.getApplicationId(), "token", device.getDeviceToken(),
            "trigger", push.getTrigger(), "format", push.getNotificationFormat(),
            "adapter", table.getDataAdapter(), "items", String.join(" ", table.getSubscribedItems()));
        if (table.getId().equals("silent")) {
            throw new CreditsException(-13, "no", "not by push");
        }
    }

    @Override
    public void notifyUserMessage(String user, String session, String message)
            throws CreditsException, NotificationException {
        Adapter.tell("message", "session", session, "text", message);
        if (message.equals("rude")) {
            throw new CreditsException(-3, "no", "mind your words");
        }
        if (message.equals("unheard")) {
            throw new NotificationException("not heard");
        }
        if (message.equals("crash")) {
            throw new IllegalStateException("a mistake");
        }
    }
}
