"""Views of the shop beside the demo's four: every class that a pipeline keeps."""

MORE = """
CREATE MATERIALIZED VIEW {views}.large_orders AS
  SELECT id, customer, total FROM shop.orders WHERE quantity > 4;
CREATE MATERIALIZED VIEW {views}.orders_of_product TBLPROPERTIES ('cvs.key' = 'product, id') AS
  SELECT product, id, quantity * 2 AS twice FROM shop.orders WHERE product IS NOT NULL;
CREATE MATERIALIZED VIEW {views}.variety AS
  SELECT customer, COUNT(DISTINCT product) AS products FROM shop.orders GROUP BY customer;
CREATE MATERIALIZED VIEW {views}.extremes_by_city AS
  SELECT c.city, MIN(o.total) AS smallest, MAX(o.total) AS largest
  FROM shop.orders o JOIN shop.customers c ON o.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW {views}.small_customers AS
  SELECT id AS customer FROM shop.customers EXCEPT SELECT customer FROM shop.orders WHERE quantity > 7;
CREATE MATERIALIZED VIEW {views}.buyers_of_both AS
  SELECT customer FROM shop.orders WHERE product = 0 INTERSECT SELECT customer FROM shop.orders WHERE product = 1;
CREATE MATERIALIZED VIEW {views}.seen AS
  SELECT customer AS number FROM shop.orders WHERE quantity > 6 UNION SELECT product FROM shop.orders
  WHERE quantity < 3;
"""
