import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;

import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DataStorageSpec;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.commitlog.CommitLogDescriptor;
import org.apache.cassandra.db.commitlog.CommitLogReadHandler;
import org.apache.cassandra.db.commitlog.CommitLogReader;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.schema.UserFunctions;
import org.apache.cassandra.schema.Views;

/**
 * The outsider of the differential test: Cassandra's own CommitLogReader, its changes as one line each.
 *
 * Usage: StockReader schema.tsv out.txt segment... ; without lines ("-" as out) it only counts, for the bench.
 */
public final class StockReader {
    private static final StringBuilder LINE = new StringBuilder(1 << 12);

    public static void main(String[] arguments) throws Exception {
        DatabaseDescriptor.clientInitialization(false, () -> {
            Config config = new Config();
            config.max_mutation_size = new DataStorageSpec.IntKibibytesBound("16MiB");
            return config;
        });
        DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
        loadSchema(Path.of(arguments[0]));
        boolean writes = !arguments[1].equals("-");
        Path out = writes ? Path.of(arguments[1]) : Path.of("/dev/null");
        long[] counts = new long[2];
        long[] segment = new long[1];
        long start = System.nanoTime();
        try (BufferedWriter writer = Files.newBufferedWriter(out, StandardCharsets.UTF_8)) {
            CommitLogReadHandler handler = new CommitLogReadHandler() {
                @Override
                public boolean shouldSkipSegmentOnError(CommitLogReadException fault) throws IOException {
                    throw fault;
                }

                @Override
                public void handleUnrecoverableError(CommitLogReadException fault) throws IOException {
                    throw fault;
                }

                @Override
                public void handleMutation(Mutation mutation, int size, int location, CommitLogDescriptor descriptor) {
                    counts[0]++;
                    try {
                        for (PartitionUpdate update : mutation.getPartitionUpdates()) {
                            counts[1] += changes(update, writes ? writer : null);
                        }
                    } catch (IOException fault) {
                        throw new java.io.UncheckedIOException(fault);
                    }
                }
            };
            for (String path : Arrays.asList(arguments).subList(2, arguments.length)) {
                new CommitLogReader().readCommitLogSegment(handler, new File(path), true);
            }
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.println("{\"mutations\": " + counts[0] + ", \"changes\": " + counts[1] + ", \"seconds\": " + seconds + "}");
        System.exit(0);
    }

    /** Lines: "T keyspace name field,field type;type" and "C keyspace id statement", tab-separated. */
    private static void loadSchema(Path path) throws IOException {
        Map<String, Types.RawBuilder> types = new TreeMap<>();
        Map<String, List<String[]>> tables = new TreeMap<>();
        for (String line : Files.readAllLines(path)) {
            String[] parts = line.split("\t");
            Types.RawBuilder builder = types.computeIfAbsent(parts[1], Types::rawBuilder);
            if (parts[0].equals("T")) {
                builder.add(parts[2], List.of(parts[3].split(",")), List.of(parts[4].split(";")));
            } else {
                tables.computeIfAbsent(parts[1], name -> new ArrayList<>()).add(parts);
            }
        }
        for (String keyspace : types.keySet()) {
            Types known = types.get(keyspace).build();
            Tables.Builder built = Tables.builder();
            for (String[] parts : tables.getOrDefault(keyspace, List.of())) {
                CreateTableStatement.Raw raw = CQLFragmentParser.parseAny(CqlParser::createTableStatement, parts[3], "CREATE TABLE");
                TableMetadata.Builder table = raw.keyspace(keyspace).prepare(null).builder(known);
                built.add(table.id(TableId.fromUUID(UUID.fromString(parts[2]))).build());
            }
            KeyspaceMetadata metadata = KeyspaceMetadata.create(
                keyspace, KeyspaceParams.local(), built.build(), Views.none(), known, UserFunctions.none());
            Schema.instance.transform(schema -> schema.withAddedOrReplaced(metadata));
        }
    }

    private static int changes(PartitionUpdate update, BufferedWriter writer) throws IOException {
        String start = update.metadata().id + " " + hex(update.partitionKey().getKey()) + " ";
        int count = 0;
        DeletionTime partition = update.partitionLevelDeletion();
        if (!partition.isLive()) {
            count += emit(writer, "PARTITION_DELETION " + start + deletion(partition));
        }
        try (UnfilteredRowIterator rows = update.unfilteredIterator()) {
            Row statics = rows.staticRow();
            if (!statics.isEmpty()) {
                count += emit(writer, "STATIC " + start + row(statics, writer != null));
            }
            String open = "";
            while (rows.hasNext()) {
                Unfiltered next = rows.next();
                if (next.isRow()) {
                    count += emit(writer, "ROW " + start + row((Row) next, writer != null));
                    continue;
                }
                RangeTombstoneMarker marker = (RangeTombstoneMarker) next;
                if (marker.isClose(false)) {
                    String end = bound(marker.closeBound(false));
                    count += emit(writer, "RANGE_DELETION " + start + deletion(marker.closeDeletionTime(false)) + open + end);
                }
                if (marker.isOpen(false)) {
                    open = bound(marker.openBound(false));
                }
            }
        }
        return count;
    }

    private static int emit(BufferedWriter writer, String line) throws IOException {
        if (writer != null) {
            writer.write(line);
            writer.write('\n');
        }
        return 1;
    }

    private static String row(Row row, boolean writes) {
        if (!writes) {
            int sum = 0;
            for (ColumnData column : row) {
                sum += column.dataSize();
            }
            return sum < 0 ? "-" : "";
        }
        LINE.setLength(0);
        if (!row.isStatic()) {
            LINE.append(values(row.clustering()));
        }
        if (!row.primaryKeyLivenessInfo().isEmpty()) {
            LINE.append(" live ").append(row.primaryKeyLivenessInfo().timestamp());
            if (row.primaryKeyLivenessInfo().isExpiring()) {
                LINE.append(" ttl ").append(row.primaryKeyLivenessInfo().ttl());
                LINE.append(" ").append(row.primaryKeyLivenessInfo().localExpirationTime());
            }
        }
        if (!row.deletion().isLive()) {
            LINE.append(" ").append(deletion(row.deletion().time()));
        }
        for (ColumnData column : row) {
            if (column instanceof ComplexColumnData) {
                ComplexColumnData complex = (ComplexColumnData) column;
                if (!complex.complexDeletion().isLive()) {
                    LINE.append(" | emptied ").append(column.column().name).append(" ");
                    LINE.append(deletion(complex.complexDeletion()));
                }
                for (Cell<?> cell : complex) {
                    cell(cell);
                }
            } else {
                cell((Cell<?>) column);
            }
        }
        return LINE.toString();
    }

    private static void cell(Cell<?> cell) {
        LINE.append(" | ").append(cell.column().name);
        if (cell.path() != null) {
            LINE.append("[").append(hex(cell.path().get(0))).append("]");
        }
        LINE.append("=").append(cell.isTombstone() ? "gone" : hex(cell.buffer())).append("@").append(cell.timestamp());
        if (cell.isTombstone() || cell.isExpiring()) {
            LINE.append(" ttl ").append(cell.isTombstone() ? 0 : cell.ttl()).append(" ").append(cell.localDeletionTime());
        }
    }

    private static String bound(ClusteringBound<?> bound) {
        return " " + (bound.isInclusive() ? "incl" : "excl") + values(bound);
    }

    private static String values(ClusteringPrefix<?> prefix) {
        StringBuilder text = new StringBuilder("(");
        for (int i = 0; i < prefix.size(); i++) {
            text.append(i > 0 ? "," : "").append(prefix.get(i) == null ? "null" : hex(prefix.bufferAt(i)));
        }
        return text.append(")").toString();
    }

    private static String deletion(DeletionTime time) {
        return "deleted " + time.markedForDeleteAt() + " " + time.localDeletionTime();
    }

    private static String hex(ByteBuffer buffer) {
        ByteBuffer bytes = buffer.duplicate();
        StringBuilder text = new StringBuilder(bytes.remaining() * 2 + 2).append("0x");
        while (bytes.hasRemaining()) {
            byte b = bytes.get();
            text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
