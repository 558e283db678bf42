import { useEffect, useState } from "react";
import { Subscription } from "lightstreamer-client-web";

/** The current values of items, by item: `{ item1: { last_price: "3.04" } }`. It changes as they do. */
export function useItems(client, adapter, items, fields) {
  const [rows, setRows] = useState({});
  const wanted = `${adapter} ${items} ${fields}`;

  useEffect(() => {
    const subscription = new Subscription("MERGE", items, fields);
    subscription.setDataAdapter(adapter);
    subscription.setRequestedSnapshot("yes");
    subscription.addListener({
      onItemUpdate: (update) => {
        const values = Object.fromEntries(fields.map((field) => [field, update.getValue(field)]));
        setRows((before) => ({ ...before, [update.getItemName()]: values }));
      },
    });
    client.subscribe(subscription);
    return () => client.unsubscribe(subscription);
  }, [client, wanted]);

  return rows;
}
