/** Promises of ingest, each broken by a small change, and the test that holds it. */
type Bug = {
  readonly what: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The file of the test, and a piece of its title. */
  readonly caught: readonly [file: string, title: string];
};

const CONTRACT = 'test/ingest/log-contract.test.ts';
const ARCHIVE = 'test/store/archive.test.ts';
const FAULTS = 'test/store/projector-faults.kills.ts';

export const BUGS: readonly Bug[] = [
  {
    what: 'the fencing check is dropped',
    file: 'store/log/archive.ts',
    find: 'place === undefined || place.position < reading.from',
    replace: 'place === undefined',
    caught: [ARCHIVE, 'P11'],
  },
  {
    what: 'a conflict counts as a duplicate',
    file: 'ingest/log/postgres.ts',
    find: "return before === event.digest ? 'duplicate' : 'conflict';",
    replace: "return 'duplicate';",
    caught: [CONTRACT, 'P5'],
  },
  {
    what: 'a request is answered before the log has answered',
    file: 'api/ingestion/ingestion.ts',
    find: 'const appended = await queue.append(events)',
    replace:
      "void queue.append(events).catch(() => {});\n      const appended = await Promise.resolve(events.map(() => 'accepted' as const))",
    caught: ['test/api/events.test.ts', 'P6'],
  },
  {
    what: 'the identity lacks the key',
    file: 'ingest/log/postgres.ts',
    find: 'e.key}\\uFFFE|',
    replace: "''}\\uFFFE|",
    caught: [CONTRACT, 'distinguishes identities'],
  },
  {
    what: 'positions leave gaps',
    file: 'ingest/log/postgres.ts',
    find: 'next.set(partition, position + 1);',
    replace: 'next.set(partition, position + 2);',
    caught: [CONTRACT, 'gives positions without gaps'],
  },
  {
    what: 'what lies below the position is applied again',
    file: 'store/log/archive.ts',
    find: 'if (record.offset < place.position) skipped++;',
    replace: 'if (record.offset < 0) skipped++;',
    caught: [ARCHIVE, 'a second time changes nothing'],
  },
  {
    what: 'a position may move back',
    file: 'store/log/archive.ts',
    find: 'if (next <= position) return [];',
    replace: '',
    caught: [ARCHIVE, 'P10'],
  },
  {
    what: 'the last record is not compared',
    file: 'store/log/archive.ts',
    find: 'recordDigest(again) === place.last_digest',
    replace: 'recordDigest(again) !== null',
    caught: [ARCHIVE, 'P14'],
  },
  {
    what: 'the end of the log is not looked at',
    file: 'store/log/archive.ts',
    find: ' || reading.end < place.position',
    replace: '',
    caught: [ARCHIVE, 'P11: is fenced'],
  },
  {
    what: 'a refused record is not laid aside',
    file: 'store/log/archive.ts',
    find: 'letters.push({ place: placeOf(partition, record.offset), raw: rawOf(record), refusal });',
    replace: '',
    caught: [ARCHIVE, 'P22'],
  },
  {
    what: 'what the environment fails at is buried',
    file: 'store/db/faults.ts',
    find: "/^(?:22|23|54)/.test(sqlState(error) ?? '')",
    replace: "/^/.test(sqlState(error) ?? '')",
    caught: [FAULTS, 'P23'],
  },
  {
    what: 'positions are committed before the rows',
    file: 'store/projecting/projector.ts',
    find: 'const dead = await applyBatch(tx, events, {',
    replace: `await tx.query(
    \`update troupe.positions p set position = l.next_position from troupe.log_partitions l
     where l.partition = p.partition and p.projection = 'facts'; commit; begin; set local search_path = facts, pg_catalog\`,
  );
  const dead = await applyBatch(tx, events, {`,
    caught: [FAULTS, 'P1, P10'],
  },
];
