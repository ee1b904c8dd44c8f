-- Views as people of a shop would write them, over the tables of `test_written_views.py`: each is compared with DuckDB.

CREATE MATERIALIZED VIEW shop.paid AS
SELECT customer, day, id, total, COALESCE(note, '-') AS note FROM orders WHERE status = 'paid' AND total > 0;

CREATE MATERIALIZED VIEW shop.by_status TBLPROPERTIES ('cvs.key' = '(status), day DESC, customer, id') AS
SELECT status, day, customer, id, total FROM orders WHERE status IS NOT NULL;

CREATE MATERIALIZED VIEW shop.days AS
SELECT day, COUNT(*) AS orders, SUM(total) AS turnover, AVG(total) AS mean, MIN(total) AS low, MAX(total) AS high
FROM orders GROUP BY day;

CREATE MATERIALIZED VIEW shop.months AS
SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(DISTINCT customer) AS customers, SUM(total) AS turnover
FROM orders GROUP BY YEAR(day), MONTH(day);

CREATE MATERIALIZED VIEW shop.grades AS
SELECT CASE WHEN total >= 2 THEN 'big' WHEN total IS NULL THEN 'none' ELSE 'small' END AS grade, COUNT(*) AS n,
       COUNT(note) AS noted, COUNT_IF(COALESCE(total, 0) > 1) AS over, SUM(total) FILTER (WHERE status = 'paid') AS paid
FROM orders GROUP BY CASE WHEN total >= 2 THEN 'big' WHEN total IS NULL THEN 'none' ELSE 'small' END;

CREATE MATERIALIZED VIEW shop.busy AS
SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer HAVING COUNT(*) > 1 AND MAX(total) > 0.5;

CREATE MATERIALIZED VIEW shop.above AS
SELECT customer, SUM(total) AS s FROM orders GROUP BY customer
HAVING SUM(total) > (SELECT AVG(total) FROM orders);

CREATE MATERIALIZED VIEW shop.named AS
SELECT o.customer, o.day, o.id, c.name, c.country FROM orders o JOIN customers c ON o.customer = c.id;

CREATE MATERIALIZED VIEW shop.all_named AS
SELECT o.customer, o.day, o.id, c.name, UPPER(c.country) AS country
FROM orders o LEFT JOIN customers c ON c.id = o.customer AND c.active;

CREATE MATERIALIZED VIEW shop.both AS
SELECT COALESCE(c.id, o.customer) AS who, COALESCE(o.day, DATE '1970-01-01') AS day, COALESCE(o.id, -1) AS id, c.name,
       o.total
FROM customers c FULL OUTER JOIN orders o ON o.customer = c.id
GROUP BY COALESCE(c.id, o.customer), COALESCE(o.day, DATE '1970-01-01'), COALESCE(o.id, -1), c.name, o.total;

CREATE MATERIALIZED VIEW shop.per_country AS
SELECT c.country, SUM(l.quantity * l.price) AS turnover, COUNT(DISTINCT o.customer) AS buyers
FROM lines l JOIN orders o ON l.customer = o.customer AND l.day = o.day AND l.id = o.id
JOIN customers c ON c.id = o.customer GROUP BY c.country;

CREATE MATERIALIZED VIEW shop.with_orders AS
SELECT id, name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.status = 'paid');

CREATE MATERIALIZED VIEW shop.without_orders AS
SELECT c.id, c.name FROM customers c LEFT ANTI JOIN orders o ON o.customer = c.id;

CREATE MATERIALIZED VIEW shop.never AS SELECT id FROM customers WHERE id NOT IN (SELECT referrer FROM customers);

CREATE MATERIALIZED VIEW shop.referrers AS SELECT id FROM customers WHERE id IN (SELECT referrer FROM customers);

CREATE MATERIALIZED VIEW shop.spent AS
SELECT c.id, c.name, (SELECT SUM(o.total) FROM orders o WHERE o.customer = c.id) AS spent,
       (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id) AS n
FROM customers c;

CREATE MATERIALIZED VIEW shop.biggest AS
SELECT o.customer, o.day, o.id, o.total FROM orders o
WHERE o.total = (SELECT MAX(i.total) FROM orders i WHERE i.customer = o.customer);

CREATE MATERIALIZED VIEW shop.friends AS
SELECT a.id, b.id AS by, b.name FROM customers a JOIN customers b ON a.referrer = b.id;

CREATE MATERIALIZED VIEW shop.people AS
SELECT id FROM customers UNION SELECT customer FROM orders UNION SELECT referrer FROM customers;

CREATE MATERIALIZED VIEW shop.idle AS
SELECT id FROM customers EXCEPT SELECT customer FROM orders EXCEPT SELECT referrer FROM customers;

CREATE MATERIALIZED VIEW shop.loyal AS
SELECT id FROM customers INTERSECT SELECT customer FROM orders WHERE total > 1;

CREATE MATERIALIZED VIEW shop.events AS
SELECT kind, COUNT(*) AS n FROM (SELECT status AS kind FROM orders UNION ALL SELECT country FROM customers) AS u
GROUP BY kind;

CREATE MATERIALIZED VIEW shop.best TBLPROPERTIES ('cvs.level' = 'strong') AS
SELECT customer, SUM(total) AS s FROM orders GROUP BY customer ORDER BY s DESC, customer LIMIT 3;

CREATE MATERIALIZED VIEW shop.later AS
SELECT customer, day, id, total FROM orders ORDER BY total DESC NULLS LAST, customer, day, id LIMIT 4 OFFSET 2;

CREATE MATERIALIZED VIEW shop.spread AS
SELECT customer, STDDEV(total) AS s, VARIANCE(total) AS v, COUNT(DISTINCT status) AS states FROM orders GROUP BY customer;

CREATE MATERIALIZED VIEW shop.kinds AS SELECT DISTINCT status, vip FROM orders WHERE status LIKE 'p%' OR NOT vip;

CREATE MATERIALIZED VIEW shop.words AS
SELECT id, CONCAT(name, ' (', country, ')') AS shown, LENGTH(name) AS letters, SUBSTRING(name, 1, 1) AS first,
       NULLIF(country, 'de') AS abroad, IF(active, 'yes', 'no') AS active
FROM customers WHERE name IS NOT NULL;

CREATE MATERIALIZED VIEW shop.sums AS
WITH paid AS (SELECT customer, total FROM orders WHERE status = 'paid'),
     sums AS (SELECT customer, SUM(total) AS s FROM paid GROUP BY customer)
SELECT c.id, c.name, COALESCE(s.s, 0) AS s FROM customers c LEFT JOIN sums s ON s.customer = c.id;

CREATE MATERIALIZED VIEW shop.ladder AS
SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS i GROUP BY n;

CREATE MATERIALIZED VIEW shop.recent AS
SELECT customer, day, id FROM orders
WHERE day >= DATE '2024-01-05' - INTERVAL '3' DAY AND day BETWEEN '2024-01-02' AND '2024-01-04';

-- DuckDB 2.0.0 counts null for COUNT_IF of nothing but nulls, Spark and we 0
CREATE MATERIALIZED VIEW shop.ratio AS
SELECT customer, SUM(total) / COUNT(*) AS per_order, 100 * COUNT_IF(COALESCE(vip, FALSE)) / COUNT(*) AS share, MOD(COUNT(*), 2) AS odd
FROM orders GROUP BY customer;

CREATE MATERIALIZED VIEW shop.null_safe AS
SELECT a.id FROM customers a WHERE a.country <=> NULL OR a.country IS DISTINCT FROM 'de';

CREATE MATERIALIZED VIEW shop.flags AS
SELECT active, COUNT(*) AS n, MIN(name) AS first, MAX(weight) AS heavy, SUM(weight) AS w FROM customers GROUP BY active;

CREATE MATERIALIZED VIEW shop.weights AS SELECT weight, COUNT(*) AS n FROM customers GROUP BY weight;

CREATE MATERIALIZED VIEW shop.overall AS
SELECT COUNT(*) AS n, SUM(total) AS s, AVG(total) AS a, MIN(day) AS since, COUNT(DISTINCT day) AS days FROM orders;

CREATE MATERIALIZED VIEW shop.half AS
SELECT customer, day, id, ROUND(total, 1) AS r, FLOOR(total) AS f, CEIL(total) AS c, ABS(total - 1) AS d, -total AS m
FROM orders;

CREATE MATERIALIZED VIEW shop.unsold AS
SELECT o.customer, o.day, o.id FROM orders o
WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.customer = o.customer AND l.day = o.day AND l.id = o.id AND l.quantity > 0);

CREATE MATERIALIZED VIEW shop.any_of AS
SELECT c.id FROM customers c WHERE c.active OR EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id);

CREATE MATERIALIZED VIEW shop.stock AS
SELECT sku, SUM(quantity) AS q, MAX(price) AS p, COUNT(DISTINCT price) AS prices FROM lines WHERE sku <> '' GROUP BY sku;

CREATE MATERIALIZED VIEW shop.pairs AS
SELECT a.sku, b.sku AS other, COUNT(*) AS n FROM lines a
JOIN lines b ON a.customer = b.customer AND a.day = b.day AND a.id = b.id WHERE a.sku < b.sku GROUP BY a.sku, b.sku;

CREATE MATERIALIZED VIEW shop.top_day AS
SELECT day, s FROM (SELECT day, SUM(total) AS s FROM orders GROUP BY day) AS d
WHERE s >= (SELECT MAX(s) FROM (SELECT SUM(total) AS s FROM orders GROUP BY day) AS m);

CREATE MATERIALIZED VIEW shop.right_side AS
SELECT c.id, COUNT(o.id) AS n FROM orders o RIGHT JOIN customers c ON o.customer = c.id AND o.total > 1 GROUP BY c.id;

CREATE MATERIALIZED VIEW shop.using_key AS
SELECT customer, day, id, line, total, quantity, sku FROM orders JOIN lines USING (customer, day, id);

CREATE MATERIALIZED VIEW shop.cast_text AS
SELECT id, CAST(FLOOR(weight) AS INT) AS whole, CAST(id AS STRING) AS label, CAST(active AS INT) AS bit, CAST(name AS INT) AS none
FROM customers;

CREATE MATERIALIZED VIEW shop.late_days AS
SELECT DATE_TRUNC('month', day) AS month, MAX(DATEDIFF(day, DATE '2024-01-01')) AS last FROM orders
GROUP BY DATE_TRUNC('month', day);

CREATE MATERIALIZED VIEW shop.neither AS
SELECT id FROM customers WHERE id NOT IN (SELECT referrer FROM customers) AND referrer NOT IN (SELECT customer FROM orders);

CREATE MATERIALIZED VIEW shop.if_any AS
SELECT id, name FROM customers WHERE EXISTS (SELECT 1 FROM orders WHERE total > 1)
AND NOT EXISTS (SELECT 1 FROM lines WHERE quantity IS NULL);
