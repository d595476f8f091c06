/**
 * `bench export`: the answer to a query as an Arrow IPC file on the disk, by `troupe sql --out`, against the ADBC driver in Python on
 * the same query and server. Both files are flushed; pyarrow reads both and compares them column by column.
 */
import { join } from 'node:path';
import { askIntoFile } from '../store/sql/sql-file.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side } from './harness.ts';
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
  about: 'rows of a query into an Arrow file, against the ADBC driver in Python on the same query',
  async run(settings) {
    const steps = oneCount(settings.sizes, STEPS, 'steps');
    const server = await startBenchServer(settings.scratch);
    const found = findPython(['adbc_driver_postgresql', 'pyarrow'], process.env);
    const peer = 'missing' in found ? null : startPeer(found, 'export_adbc.py', { threads: settings.threads });
    try {
      await fillSteps(server.db, steps);
      await peer?.ask({ do: 'connect', url: server.url });
      const results: Result[] = [];
      for (const query of QUERIES)
        results.push(
          await exportCase(server, settings, { ...query, steps }, peer ?? ('missing' in found ? found.missing : '')),
        );
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
  const { differ, columns } = await peer.ask<{ differ: string[]; columns: number }>({
    do: 'compare',
    ours: mine,
    theirs,
  });
  return compared(
    about,
    measured[0]!,
    { what: 'ADBC 1.13 and pyarrow in Python', measured: measured[1]! },
    {
      equal: differ.length === 0,
      how:
        differ.length === 0 ? `${columns} columns the same in pyarrow` : `these columns differ: ${differ.join(', ')}`,
    },
  );
}
