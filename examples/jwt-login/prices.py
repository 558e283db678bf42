from penstock.adapters import DataAdapter


class Prices(DataAdapter):
    def subscribe(self, item):
        self.update(item, {"price": "100.00"}, snapshot=True)
