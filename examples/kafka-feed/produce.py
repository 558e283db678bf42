"""Quotes of two symbols into the topic `quotes`: python produce.py [localhost:9092] [number of records]"""

import json
import random
import sys

from confluent_kafka import Producer

servers, count = [*sys.argv[1:], *["localhost:9092", "1000"][len(sys.argv) - 1 :]]
producer = Producer({"bootstrap.servers": servers})
prices = {"acme": 101.25, "globex": 54.10}
for _ in range(int(count)):
    symbol = random.choice(list(prices))
    prices[symbol] += random.uniform(-0.5, 0.5)
    quote = {"bid": f"{prices[symbol]:.2f}", "ask": f"{prices[symbol] + 0.05:.2f}"}
    producer.produce("quotes", key=symbol, value=json.dumps(quote))
    producer.poll(0)
producer.flush()
