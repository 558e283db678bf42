import { createRoot } from "react-dom/client";
import { LightstreamerClient } from "lightstreamer-client-web";
import { useItems } from "./useItems.js";

const ITEMS = ["item1", "item2", "item3", "item4"];
const FIELDS = ["stock_name", "last_price", "time"];

// Another server: index.html?server=https://push.example.com
const server = new URLSearchParams(location.search).get("server") ?? "http://localhost:8080";
const client = new LightstreamerClient(server, "WELCOME");
client.connect();

function Prices() {
  const rows = useItems(client, "STOCKS", ITEMS, FIELDS);
  return (
    <table>
      <tbody>
        {ITEMS.filter((item) => rows[item]).map((item) => (
          <tr key={item}>
            {FIELDS.map((field) => (
              <td key={field}>{rows[item][field]}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

createRoot(document.getElementById("page")).render(<Prices />);
