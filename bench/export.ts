/**
 * `bench export`: the answer to a query as an Arrow IPC file on the disk, by `troupe sql --out`, against the ADBC driver in Python on
 * the same query and server; and that file as Parquet, against pyarrow on the same file. All files are flushed; pyarrow reads both and
 * compares them column by column.
 */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { streamsIn } from '../store/datasets/arrow.ts';
import { parquetOf } from '../store/datasets/parquet.ts';
import { askIntoFile } from '../store/explore/sql/sql-file.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side, type Verdict } from './harness.ts';
import { findPython } from './python.ts';
import { type BenchServer, startBenchServer } from './server.ts';
import { oneCount } from './sizes.ts';
import { fillSteps } from './stored-steps.ts';
import { startPeer, type Timed, type Worker } from './worker.ts';

const STEPS = 1_000_000;

const QUERIES: readonly { readonly name: string; readonly sql: string }[] = [
  {
    name: 'the view of steps',
    sql: `select step_id, episode_id, call_id, candidate, agent, role, turn, text, finish_reason, chosen, input_tokens, completed_at from traj.steps`,
  },
  {
    name: 'the table of steps',
    sql: `select episode_id, call_id, candidate, text, finish_reason, token_ids, logprobs, chosen from facts.steps`,
  },
];

export const bench: Bench = {
  name: 'export',
  about: 'rows of a query into an Arrow file and a Parquet file, against the ADBC driver and pyarrow in Python',
  async run(settings) {
    const steps = oneCount(settings.sizes, STEPS, 'steps');
    const server = await startBenchServer(settings.scratch);
    const found = findPython(['adbc_driver_postgresql', 'pyarrow'], process.env);
    const peer = 'missing' in found ? null : startPeer(found, 'export_adbc.py', { threads: settings.threads });
    try {
      await fillSteps(server.db, steps);
      await peer?.ask({ do: 'connect', url: server.url });
      const results: Result[] = [];
      for (const query of QUERIES) {
        const other = peer ?? ('missing' in found ? found.missing : '');
        results.push(await exportCase(server, settings, { ...query, steps }, other));
        results.push(await parquetCase(server, settings, { ...query, steps }, other));
      }
      return results;
    } finally {
      await peer?.close();
      await server.close();
    }
  },
};

async function exportCase(
  server: BenchServer,
  { rounds, scratch, say }: Settings,
  { name, sql, steps }: { readonly name: string; readonly sql: string; readonly steps: number },
  peer: Worker | string,
): Promise<Result> {
  const [mine, theirs] = [join(scratch, 'ours.arrow'), join(scratch, 'theirs.arrow')];
  const asked = `${sql} order by episode_id, call_id, candidate`;
  let bytes = 0;
  const ours = (query: string): Side => ({
    name: 'ours',
    round: () =>
      server.measure(steps, async () => {
        const written = await askIntoFile(server.db, query, mine);
        bytes = written.bytes;
        if (written.rows !== steps) throw new Error(`${written.rows} of ${steps} rows were written.`);
      }),
  });
  const other = (query: string): Side => ({
    name: 'ADBC',
    round: async () => {
      let cpu = 0;
      const measured = await server.measure(steps, async () => {
        const answer = await (peer as Worker).ask<Timed>({ do: 'export', query, file: theirs });
        cpu = answer.cpu_seconds;
      });
      return { ...measured, cpuSeconds: measured.cpuSeconds + cpu };
    },
  });
  const sides = typeof peer === 'string' ? [ours(sql)] : [ours(sql), other(sql)];
  for (const side of sides) await side.round(-1);
  const { measured, disturbed } = await interleave(sides, {
    rounds,
    onRound: (line) => say(`export ${name}: ${line}`),
  });
  const about = {
    case: `${name}, ${steps.toLocaleString('en')} rows`,
    unit: 'rows/s',
    disturbed,
    more: { bytes_a_row: bytes / steps, peak_rss_mib: Math.round(process.resourceUsage().maxRSS / 1024) },
  };
  if (typeof peer === 'string') return oursOnly(about, measured[0]!, peer);
  // Compared in an order that both must keep; the rounds ask without one, since sorting would be most of the work.
  await ours(asked).round(-1);
  await other(asked).round(-1);
  const theirSide = { what: 'ADBC 1.13 and pyarrow in Python', measured: measured[1]! };
  return compared(about, measured[0]!, theirSide, await sameFiles(peer, mine, theirs));
}

async function sameFiles(peer: Worker, ours: string, theirs: string): Promise<Verdict> {
  const { differ, columns } = await peer.ask<{ differ: string[]; columns: number }>({ do: 'compare', ours, theirs });
  const how =
    differ.length === 0 ? `${columns} columns the same in pyarrow` : `these columns differ: ${differ.join(', ')}`;
  return { equal: differ.length === 0, how };
}

/** The Arrow file of a query as Parquet, compressed by zstd; row groups are 65,536 rows of ours and pyarrow's default of its own. */
async function parquetCase(
  server: BenchServer,
  { rounds, scratch, say }: Settings,
  { name, sql, steps }: { readonly name: string; readonly sql: string; readonly steps: number },
  peer: Worker | string,
): Promise<Result> {
  const [arrow, mine, theirs] = ['rows.arrow', 'ours.parquet', 'theirs.parquet'].map((file) => join(scratch, file));
  await askIntoFile(server.db, sql, arrow!);
  let bytes = 0;
  const ours: Side = {
    name: 'ours',
    round: () =>
      server.measure(steps, async () => {
        const file = await open(mine!, 'w');
        bytes = 0;
        for await (const part of parquetOf(streamsIn(arrow!))) {
          await file.writeFile(part);
          bytes += part.length;
        }
        await file.sync();
        await file.close();
      }),
  };
  const other: Side = {
    name: 'pyarrow',
    round: async () => {
      let cpu = 0;
      const measured = await server.measure(steps, async () => {
        const asked = { do: 'parquet', arrow, file: theirs };
        cpu = (await (peer as Worker).ask<Timed>(asked)).cpu_seconds;
      });
      return { ...measured, cpuSeconds: measured.cpuSeconds + cpu };
    },
  };
  const sides = typeof peer === 'string' ? [ours] : [ours, other];
  for (const side of sides) await side.round(-1);
  const { measured, disturbed } = await interleave(sides, {
    rounds,
    onRound: (line) => say(`Parquet of ${name}: ${line}`),
  });
  const about = {
    case: `Parquet of ${name}, ${steps.toLocaleString('en')} rows`,
    unit: 'rows/s',
    disturbed,
    more: { bytes_a_row: bytes / steps },
  };
  if (typeof peer === 'string') return oursOnly(about, measured[0]!, peer);
  const theirSide = { what: 'pyarrow on the same Arrow file', measured: measured[1]! };
  return compared(about, measured[0]!, theirSide, await sameFiles(peer, mine!, theirs!));
}
