/**
 * Proof that the tests of ingest can fail: in a copy of the checkout one promise after the other is broken by a small change, and the
 * test that holds it must go red; without a change all of these tests are green.
 */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Outcome, Proof, Setting } from './proof.ts';
import { runTests, type Tried } from './test-run.ts';

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
const FAULTS = 'test/store/projector-faults.test.ts';

/** The first three are the short form. */
const BUGS: readonly Bug[] = [
  {
    what: 'the fencing check is dropped',
    file: 'store/archive.ts',
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
    file: 'api/door.ts',
    find: 'const appended = await queue.append(events);',
    replace:
      "void queue.append(events).catch(() => {});\n      const appended = events.map(() => 'accepted' as const);",
    caught: ['test/api/events.test.ts', 'P6'],
  },
  {
    what: 'the identity lacks the key',
    file: 'ingest/log/postgres.ts',
    find: 'e.key}\\u0000',
    replace: "''}",
    caught: [CONTRACT, 'tells identities apart'],
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
    file: 'store/archive.ts',
    find: 'if (record.offset < place.position) skipped++;',
    replace: 'if (record.offset < 0) skipped++;',
    caught: [ARCHIVE, 'a second time changes nothing'],
  },
  {
    what: 'a position may move back',
    file: 'store/archive.ts',
    find: 'if (next <= position) return [];',
    replace: '',
    caught: [ARCHIVE, 'P10'],
  },
  {
    what: 'the last record is not compared',
    file: 'store/archive.ts',
    find: 'recordDigest(again) === place.last_digest',
    replace: 'recordDigest(again) !== null',
    caught: [ARCHIVE, 'P14'],
  },
  {
    what: 'the end of the log is not looked at',
    file: 'store/archive.ts',
    find: 'if (end < place.position) throw',
    replace: 'if (end < 0) throw',
    caught: [ARCHIVE, 'P14'],
  },
  {
    what: 'a refused record is not laid aside',
    file: 'store/archive.ts',
    find: 'letters.push({ place, raw: rawOf(record), refusal });',
    replace: '',
    caught: [ARCHIVE, 'P22'],
  },
  {
    what: 'what the environment fails at is buried',
    file: 'store/projector.ts',
    find: "/^(?:22|23|54)/.test(sqlState(error) ?? '')",
    replace: "/^/.test(sqlState(error) ?? '')",
    caught: [FAULTS, 'P23'],
  },
  {
    what: 'positions are committed before the rows',
    file: 'store/projector.ts',
    find: 'const dead = await applyOrBury(tx, events);',
    replace: `await tx.query(
    \`update troupe.positions p set position = l.next_position from troupe.log_partitions l
     where l.partition = p.partition and p.projection = 'facts'; commit; begin; set local search_path = facts, pg_catalog\`,
  );
  const dead = await applyOrBury(tx, events);`,
    caught: [FAULTS, 'P1, P10'],
  },
];

export const proof: Proof = {
  name: 'tests-catch-seeded-bugs',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const copy = join(scratch, 'checkout');
    const root = join(import.meta.dirname, '..');
    cpSync(root, copy, { recursive: true, filter: (path) => !SKIPPED.test(relative(root, path)) });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const bugs = short ? BUGS.slice(0, 3) : BUGS;
    const lines: string[] = [];
    const tell = (what: string, fine: boolean): void => {
      lines.push(`${fine ? 'ok' : 'NOT OK'}  ${what}`);
      say(lines.at(-1)!);
    };
    const sound = await tried(
      copy,
      [...new Set(bugs.map(({ caught: [file] }) => file))],
      bugs.map(({ caught: [, title] }) => title),
    );
    tell(
      `without a change ${sound.passed.length} tests pass and ${sound.failed.length} fail`,
      sound.passed.length >= new Set(bugs.map(({ caught }) => caught.join())).size && sound.failed.length === 0,
    );
    for (const { what, file, find, replace, caught } of bugs) {
      const path = join(copy, file);
      const text = readFileSync(path, 'utf8');
      if (text.split(find).length !== 2) {
        tell(`${file} no longer has the one place to break: ${find}`, false);
        continue;
      }
      writeFileSync(
        path,
        text.replace(find, () => replace),
      );
      const began = performance.now();
      const { failed } = await tried(copy, [caught[0]], [caught[1]]);
      writeFileSync(path, text);
      const by = failed.find((title) => title.includes(caught[1]));
      tell(
        `${what}: caught in ${((performance.now() - began) / 1000).toFixed(0)} s by ${by ?? 'nothing'}`,
        by !== undefined,
      );
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

const SKIPPED = /^(node_modules|dist|coverage|\.git|\.troupe)(\/|$)|\/node_modules(\/|$)/;

/** Runs the tests of these files whose titles hold one of these pieces. */
function tried(folder: string, files: readonly string[], titles: readonly string[]): Promise<Tried> {
  const pattern = [...new Set(titles)].map((title) => title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  return runTests(folder, [...files, '-t', pattern]);
}
