-- Habits of people who write SQL: what parsers read in more ways than one, and nulls where nobody thinks of them.
-- Over the tables of `test_written_views.py`, all in one plan; each is compared with DuckDB.

-- USING, stars, column lists behind a name, names of another column, names in another case
CREATE MATERIALIZED VIEW shop.using_then AS
SELECT orders.customer, orders.day, orders.id, line, c.name
FROM orders JOIN lines USING (customer, day, id) JOIN customers c ON c.id = orders.customer;
CREATE MATERIALIZED VIEW shop.using_star AS SELECT * FROM orders JOIN lines USING (customer, day, id);
CREATE MATERIALIZED VIEW shop.using_left AS
SELECT customer, COUNT(line) AS n, COUNT(*) AS a FROM orders LEFT JOIN lines USING (customer, day, id) GROUP BY customer;
CREATE MATERIALIZED VIEW shop.one_star AS SELECT o.*, c.name FROM orders o JOIN customers c ON o.customer = c.id;
CREATE MATERIALIZED VIEW shop.but_note AS SELECT * EXCEPT (note) FROM orders;
CREATE MATERIALIZED VIEW shop.listed AS
WITH c(who, much) AS (SELECT customer, SUM(total) FROM orders GROUP BY customer) SELECT who, much FROM c WHERE much > 1;
CREATE MATERIALIZED VIEW shop.listed_in AS
SELECT t.a, t.b FROM (SELECT customer, COUNT(*) FROM orders GROUP BY customer) AS t(a, b);
CREATE MATERIALIZED VIEW shop.swapped AS SELECT customer AS id, id AS customer, day FROM orders;
CREATE MATERIALIZED VIEW shop.shadowed AS SELECT id AS total, customer, day, total AS id FROM orders WHERE total > 1;
CREATE MATERIALIZED VIEW shop.shadowed_in AS
SELECT x.id, x.total FROM (SELECT id AS total, customer AS id FROM orders WHERE total > 0.5) x GROUP BY x.id, x.total;
CREATE MATERIALIZED VIEW shop.regrouped AS
SELECT customer + 1 AS customer, COUNT(*) AS n FROM orders GROUP BY customer + 1;
CREATE MATERIALIZED VIEW shop.loud AS SELECT Customer, DAY, Id FROM Orders O WHERE o.TOTAL > 1;
CREATE MATERIALIZED VIEW shop.quoted AS SELECT id, `Page` AS `Its Page`, PAGE AS page FROM visits WHERE `Page` <> 'V';
CREATE MATERIALIZED VIEW shop.from_first AS FROM orders SELECT customer, day, id WHERE customer > 1 IS TRUE;

-- subqueries of subqueries; inner names first
CREATE MATERIALIZED VIEW shop.above_mean AS
WITH a AS (SELECT customer, SUM(total) AS s FROM orders GROUP BY customer), b AS (SELECT AVG(s) AS m FROM a),
     c AS (SELECT a.customer, a.s FROM a, b WHERE a.s > b.m)
SELECT x.customer, x.s, y.s AS other FROM c x JOIN a y ON x.customer = y.customer;
CREATE MATERIALIZED VIEW shop.same_name AS
SELECT c.id FROM customers c WHERE EXISTS (SELECT 1 FROM customers c WHERE c.referrer = c.id);
CREATE MATERIALIZED VIEW shop.inner_name AS
SELECT id FROM customers WHERE EXISTS (SELECT 1 FROM lines WHERE customer = id);
CREATE MATERIALIZED VIEW shop.all_of AS
SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND NOT EXISTS
  (SELECT 1 FROM lines l WHERE l.customer = o.customer AND l.day = o.day AND l.id = o.id));
CREATE MATERIALIZED VIEW shop.over_mean_price AS
SELECT o.customer, SUM(o.total) AS s FROM orders o GROUP BY o.customer
HAVING SUM(o.total) > (SELECT AVG(l.price) FROM lines l WHERE l.customer = o.customer);
CREATE MATERIALIZED VIEW shop.with_lines AS
SELECT o.customer, SUM(o.total) AS s FROM orders o GROUP BY o.customer
HAVING EXISTS (SELECT 1 FROM lines l WHERE l.customer = o.customer AND l.quantity > 1);
CREATE MATERIALIZED VIEW shop.counted AS
SELECT id, (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id) AS n,
       (SELECT MAX(total) FROM orders o WHERE o.customer = c.id AND o.vip) AS m FROM customers c;
CREATE MATERIALIZED VIEW shop.few_orders AS
SELECT c.id FROM customers c WHERE (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id) = 0;
CREATE MATERIALIZED VIEW shop.of_their_status AS
SELECT customer, day, id FROM orders WHERE total > (SELECT AVG(o2.total) FROM orders o2 WHERE o2.status = orders.status);
CREATE MATERIALIZED VIEW shop.best_of_each AS
SELECT customer, day, id FROM orders o
WHERE NOT EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer AND p.total > o.total);
CREATE MATERIALIZED VIEW shop.heavier AS
SELECT c.id FROM customers c WHERE c.id IN (SELECT o.customer FROM orders o WHERE o.total > c.weight);
CREATE MATERIALIZED VIEW shop.busiest AS
SELECT customer, n FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) x
WHERE n = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY customer) y);

-- aggregates
CREATE MATERIALIZED VIEW shop.cased AS
SELECT status, SUM(CASE WHEN vip THEN total ELSE 0 END) AS v, COUNT(CASE WHEN total > 1 THEN 1 END) AS n,
       AVG(CASE WHEN vip THEN total END) AS a, COUNT(DISTINCT CASE WHEN vip THEN customer END) AS d FROM orders GROUP BY status;
CREATE MATERIALIZED VIEW shop.filtered AS
SELECT status, COUNT(*) FILTER (WHERE vip) AS v, AVG(total) FILTER (WHERE note IS NOT NULL) AS a,
       COUNT(DISTINCT customer) FILTER (WHERE vip) AS d, MIN(total) FILTER (WHERE NOT vip) AS m FROM orders GROUP BY status;
CREATE MATERIALIZED VIEW shop.constants AS
SELECT status, SUM(1) AS n, MAX(1) AS m, COUNT(1) AS c, COUNT(NULL) AS z, SUM(DISTINCT total) AS s, MAX(vip) AS v
FROM orders GROUP BY status;
CREATE MATERIALIZED VIEW shop.one_if AS SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 30;
CREATE MATERIALIZED VIEW shop.nothing AS SELECT COUNT(*) AS n, SUM(total) AS s FROM orders WHERE 1 = 0;
CREATE MATERIALIZED VIEW shop.first_column AS SELECT status, COUNT(*) AS n FROM orders GROUP BY 1 HAVING n > 1;
CREATE MATERIALIZED VIEW shop.not_many AS
SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING NOT (COUNT(*) > 4) OR SUM(total) IS NULL;
CREATE MATERIALIZED VIEW shop.means AS
SELECT customer, SUM(total) / 3 AS a, AVG(total) AS b, CAST(AVG(total) AS DECIMAL(10, 2)) AS c,
       ROUND(SUM(total) / COUNT(*), 2) AS d, MAX(total) = MIN(total) AS flat FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW shop.small_means AS
SELECT sku, AVG(quantity) AS a, SUM(line) AS s, AVG(line) AS b, MIN(sku) AS m, MAX(day) AS d FROM lines GROUP BY sku;

-- nulls in choices, ranges, orders and sets
CREATE MATERIALIZED VIEW shop.in_null AS SELECT customer, day, id, status IN ('paid', NULL) AS p FROM orders WHERE id IN (1, 2.0, 3);
CREATE MATERIALIZED VIEW shop.not_in_null AS SELECT customer, day, id FROM orders WHERE status NOT IN ('paid', NULL);
CREATE MATERIALIZED VIEW shop.half_open AS SELECT customer, day, id FROM orders WHERE total NOT BETWEEN 1 AND NULL;
CREATE MATERIALIZED VIEW shop.case_null AS
SELECT id, CASE country WHEN 'de' THEN 1 WHEN NULL THEN 2 ELSE 3 END AS k, (country = 'de') IS NULL AS u FROM customers
WHERE active IS NOT TRUE OR (active AND name = 'u') IS FALSE;
CREATE MATERIALIZED VIEW shop.nots AS
SELECT customer, day, id, NOT vip = TRUE AS a, NOT status LIKE 'p%' AS b, NOT id IN (1, 2) AS c FROM orders
WHERE NOT total BETWEEN 1 AND 1.5 AND NOT note IS NULL;
CREATE MATERIALIZED VIEW shop.nulls_last AS
SELECT customer, day, id, total FROM orders ORDER BY total NULLS LAST, customer DESC, day, id LIMIT 3;
CREATE MATERIALIZED VIEW shop.nulls_first AS
SELECT customer, day, id, total FROM orders ORDER BY total DESC NULLS FIRST, customer, day, id LIMIT 3;
CREATE MATERIALIZED VIEW shop.by_count AS
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY COUNT(*) DESC, status LIMIT 2;
CREATE MATERIALIZED VIEW shop.renamed_order AS
SELECT customer AS day, day AS customer, id FROM orders ORDER BY day, customer, id LIMIT 3;
CREATE MATERIALIZED VIEW shop.except_all AS
SELECT c, COUNT(*) AS n FROM (SELECT customer AS c FROM orders EXCEPT ALL SELECT customer FROM lines) AS t GROUP BY c;
CREATE MATERIALIZED VIEW shop.intersect_all AS
SELECT c, COUNT(*) AS n FROM (SELECT customer AS c FROM orders INTERSECT ALL SELECT customer FROM lines) AS t GROUP BY c;
CREATE MATERIALIZED VIEW shop.binds_tighter AS
SELECT customer FROM orders UNION SELECT id FROM customers INTERSECT SELECT customer FROM lines;
CREATE MATERIALIZED VIEW shop.right_first AS
SELECT customer FROM orders EXCEPT (SELECT id FROM customers EXCEPT SELECT customer FROM lines);
CREATE MATERIALIZED VIEW shop.null_meets_null AS
SELECT COUNT(*) AS n FROM (SELECT country FROM customers INTERSECT SELECT status FROM orders) AS t;
CREATE MATERIALIZED VIEW shop.widened AS SELECT customer, total FROM orders UNION SELECT id, NULL FROM customers;

-- joins
CREATE MATERIALIZED VIEW shop.half_on AS
SELECT c.id, COUNT(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id AND c.active AND o.total > 0.5 GROUP BY c.id;
CREATE MATERIALIZED VIEW shop.first_line AS
SELECT o.customer, o.day, o.id, l.line FROM orders o
LEFT JOIN lines l ON l.customer = o.customer AND l.day = o.day AND l.id = o.id AND l.line = 1;
CREATE MATERIALIZED VIEW shop.left_right AS
SELECT x.id, COUNT(o.id) AS n, COUNT(c.id) AS m FROM orders o LEFT JOIN customers c ON c.id = o.id
RIGHT JOIN customers x ON x.id = c.referrer GROUP BY x.id;
CREATE MATERIALIZED VIEW shop.three_full AS
SELECT COALESCE(o.customer, l.customer, c.id) AS k, COUNT(*) AS n, COUNT(o.id) AS a, COUNT(l.id) AS b, COUNT(c.id) AS c
FROM orders o FULL JOIN lines l ON l.customer = o.customer FULL JOIN customers c ON c.id = l.customer
GROUP BY COALESCE(o.customer, l.customer, c.id);
CREATE MATERIALIZED VIEW shop.of_other_types AS SELECT v.id, c.name FROM visits v JOIN customers c ON v.ms = c.id;
CREATE MATERIALIZED VIEW shop.unreferred AS
SELECT c.id FROM customers c LEFT ANTI JOIN customers d ON c.referrer = d.id;

-- numbers, texts, moments
CREATE MATERIALIZED VIEW shop.sums_of AS
SELECT customer, day, id, line, quantity % 3 AS m, -quantity % 3 AS k, (quantity - 4) % 3 AS j, quantity / 2 AS h,
       price / quantity AS p, quantity / 0 AS z, quantity * 1.10 AS t, ROUND(price / 3, 2) AS r, FLOOR(-price) AS f FROM lines;
CREATE MATERIALIZED VIEW shop.signs AS
SELECT customer, day, id, 2 - 1 - id AS a, 2 * (3 + total) - -1 AS b, - - id AS c, 8 / 2 / 2 AS d, 7 % 4 * 2 AS e,
       1e1 AS f, 1.50BD AS g, 10L AS h, CASE WHEN vip THEN 1 ELSE 2.5 END AS i, COALESCE(id, 0.5) AS j FROM orders;
CREATE MATERIALIZED VIEW shop.parts AS
SELECT id, SUBSTRING(name, -2) AS a, SUBSTR(name, 2, 1) AS b, SUBSTRING(name FROM 2 FOR 1) AS c, LEFT(name, 9) AS d,
       LOCATE('w', name) AS e, CONCAT(name, country) AS f, name || '-' || country AS g, NVL(name, '?') AS h,
       GREATEST(name, country) AS i, REPLACE(name, 'v', '') AS j FROM customers;
CREATE MATERIALIZED VIEW shop.patterns AS
SELECT id FROM customers WHERE name LIKE '_' OR name LIKE '%.%' OR country LIKE 'd_' OR name LIKE '(%' OR name = 'it''s';
CREATE MATERIALIZED VIEW shop.moved_days AS
SELECT customer, day, id, day + INTERVAL 1 MONTH AS a, day - INTERVAL '1' YEAR AS b, DATE_TRUNC('WEEK', day) AS c,
       DATEDIFF(DATE '2024-01-03', day) AS d, CAST(day AS STRING) AS e FROM orders WHERE day >= '2024-01-03' AND day < DATE'2024-01-05';
CREATE MATERIALIZED VIEW shop.hours AS
SELECT CAST(seen AS DATE) AS d, HOUR(seen) AS h, COUNT(*) AS n, MIN(seen) AS f FROM visits
WHERE seen > TIMESTAMP '2024-01-02 00:00:00+02:00' AND seen < '2024-01-04' GROUP BY CAST(seen AS DATE), HOUR(seen);

-- outer joins for what is missing, and for two sides side by side
CREATE MATERIALIZED VIEW shop.without_large AS
SELECT c.id, c.name FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.total > 1 WHERE o.customer IS NULL;
CREATE MATERIALIZED VIEW shop.side_by_side AS
SELECT COALESCE(b.customer, a.customer) AS customer, a.n, b.s
FROM (SELECT customer, COUNT(*) AS n FROM orders WHERE total > 1 GROUP BY customer) a
FULL JOIN (SELECT customer, SUM(total) AS s FROM orders WHERE id > 1 GROUP BY customer) b ON a.customer = b.customer;
