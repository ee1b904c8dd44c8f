CREATE MATERIALIZED VIEW orders_by_region
TBLPROPERTIES ('cvs.level' = 'strong')
AS SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM shop.orders GROUP BY region;
