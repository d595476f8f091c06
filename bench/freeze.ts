/**
 * `bench freeze`: the steps of a project as a dataset, against the raw writer: the same columns of the same query into one Arrow file, flushed,
 * without hashes, lineage, funnel or manifest. The highest resident memory of the process stands beside the times.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { freeze } from '../store/datasets/freeze.ts';
import { askIntoFile } from '../store/explore/sql/sql-file.ts';
import type { Bench } from './bench.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import { startBenchServer } from './server.ts';
import { oneCount } from './sizes.ts';
import { fillSteps } from './stored-steps.ts';

const STEPS = 1_000_000;
const COLUMNS = ['episode_id', 'call_id', 'candidate', 'text', 'token_ids', 'logprobs'];
const RAW = `select s.${COLUMNS.join(', s.')} from facts.steps s join facts.calls c using (episode_id, call_id)
  join facts.episodes e using (episode_id)
  order by e.started_at nulls last, e.episode_id, coalesce(c.requested_seq, c.completed_seq) nulls last, s.call_id, s.candidate`;

export const bench: Bench = {
  name: 'freeze',
  about: 'steps into a dataset, against the same rows into one Arrow file',
  async run({ sizes, rounds, scratch, say }): Promise<Result[]> {
    const steps = oneCount(sizes, STEPS, 'steps');
    const server = await startBenchServer(scratch);
    try {
      await fillSteps(server.db, steps);
      let bytes = 0;
      const ours: Side = {
        name: 'freeze',
        round: async () => {
          const directory = mkdtempSync(join(scratch, 'datasets-'));
          const measured = await server.measure(steps, async () => {
            const { manifest } = await freeze(
              server.db,
              { name: 'all', columns: COLUMNS },
              { directory, codeVersion: 'bench' },
            );
            if (manifest.rows.train !== steps) throw new Error(`${manifest.rows.train} of ${steps} rows were frozen.`);
            bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
          });
          rmSync(directory, { recursive: true });
          return measured;
        },
      };
      const raw: Side = {
        name: 'raw writer',
        round: () =>
          server.measure(steps, async () => {
            const { rows } = await askIntoFile(server.db, RAW, join(scratch, 'raw.arrow'));
            if (rows !== steps) throw new Error(`${rows} of ${steps} rows were written.`);
          }),
      };
      await ours.round(-1);
      const { measured, disturbed } = await interleave([ours, raw], {
        rounds,
        onRound: (line) => say(`freeze: ${line}`),
      });
      const about = {
        case: `${steps.toLocaleString('en')} steps`,
        unit: 'rows/s',
        disturbed,
        more: { bytes_a_row: bytes / steps, peak_rss_mib: Math.round(process.resourceUsage().maxRSS / 1024) },
      };
      return [
        compared(
          about,
          measured[0]!,
          { what: 'the same columns into one Arrow file', measured: measured[1]! },
          { equal: true, how: 'row counts are the same' },
        ),
      ];
    } finally {
      await server.close();
    }
  },
};
