/** `troupe dataset mask`: what a model would learn of the rows of a dataset. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import type { OpenedDataset } from '../../store/datasets/read.ts';
import type { MaskPart } from '../../trainer/learn/data/mask-parts.ts';
import type { OpenModel } from '../../trainer/model/model-directory.ts';
import { positive, projectCommand } from '../command.ts';
import { openedDataset } from '../open-dataset.ts';
import { paint, print, printJson } from '../output.ts';

export function datasetMaskCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('mask')
      .description('show rows of a dataset with what a model learns of them in colour')
      .argument('<dataset>', 'id, name or folder')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint whose chat template writes the rows')
      .option('--split <name>', 'part of the dataset', 'train')
      .option('--rows <n>', 'number of rows, from the first', positive('rows'), 3)
      .addHelpText(
        'after',
        `
What is learnt is green, or between ⟦ and ⟧ where there are no colours; the rest of a row is cut to its beginning and end.
Rows with token ids are shown as they were sampled, others as the chat template of the model writes them. Of a pair both
answers are shown. With --json every part is whole.

Examples:
  troupe dataset mask good-solvers --model ./model
  troupe dataset mask good-solvers --model ./model --split held_out --rows 10 --json`,
      ),
    async ({ home }, [name], flags) => {
      const dataset = await openedDataset(home.datasets, name!);
      const { openModel } = await import('../../trainer/model/model-directory.ts');
      const model = await openModel(resolve(String(flags.model)));
      const rows = await masked(dataset, model, String(flags.split), Number(flags.rows));
      const form = model.template?.answerForm ?? null;
      const about = { dataset_id: dataset.manifest.dataset_id, model: model.id, split: flags.split };
      if (flags.json) printJson({ ...about, answer_form: form, rows });
      else {
        if (form !== null) print(`Answers without token ids are learnt as ${JSON.stringify(form)}\n`);
        print(rows.map(rowText).join('\n\n'));
      }
      return rows.some(({ refused }) => refused !== null) ? EXIT.failed : EXIT.done;
    },
  );
}

type MaskedRow = {
  readonly row: number;
  readonly episode_id: unknown;
  readonly step_id: unknown;
  /** By what the parts are: an answer, or the two of a pair. */
  readonly parts: Readonly<Record<string, readonly MaskPart[]>>;
  /** Why nothing could be learnt of it. */
  readonly refused: string | null;
};

async function masked(
  dataset: OpenedDataset,
  model: OpenModel,
  split: string,
  most: number,
): Promise<readonly MaskedRow[]> {
  const [{ maskParts }, { supervisedRow }, { branchRow }, { preferenceRows }] = await Promise.all([
    import('../../trainer/learn/data/mask-parts.ts'),
    import('../../trainer/learn/data/training-rows.ts'),
    import('../../trainer/learn/data/branch-rows.ts'),
    import('../../trainer/learn/data/preference-rows.ts'),
  ]);
  const { unit } = dataset.manifest.recipe;
  if (unit === 'episode' || unit === 'triplet') {
    throw new TroupeError(
      'usage',
      `A dataset of unit ${unit} has no rows that a model learns; export it in a layout.`,
      {
        expected: 'a dataset of steps, groups, branches or pairs',
        got: unit,
      },
    );
  }
  const parts = (one: Parameters<typeof maskParts>[0]) => maskParts(one, (ids) => model.tokenizer.decode(ids));
  const partsOf = (row: Readonly<Record<string, unknown>>): MaskedRow['parts'] => {
    if (unit === 'branch') return { answers: parts(branchRow(row as never, model)) };
    if (unit !== 'pair') return { answer: parts(supervisedRow(row as never, model)) };
    const [pair] = preferenceRows({ rows: () => [row] }, model);
    const { promptIds, chosen, rejected } = pair!;
    return { chosen: parts({ promptIds, ...chosen }), rejected: parts({ promptIds, ...rejected }) };
  };
  const rows: MaskedRow[] = [];
  for (const row of dataset.rows(split)) {
    const { episode_id, step_id = null } = row;
    const about = { row: rows.length, episode_id, step_id };
    try {
      rows.push({ ...about, parts: partsOf(row), refused: null });
    } catch (error) {
      if (!(error instanceof TroupeError)) throw error;
      rows.push({ ...about, parts: {}, refused: error.message });
    }
    if (rows.length === most) break;
  }
  return rows;
}

function rowText({ row, episode_id, step_id, parts, refused }: MaskedRow): string {
  const head = paint.bold(`row ${row}  ${[episode_id, step_id].filter((id) => id !== null).join(' ')}`);
  if (refused !== null) return `${head}\nRefused: ${refused}`;
  const texts = Object.entries(parts).map(([name, all]) => {
    const count = (of: readonly MaskPart[]) => of.reduce((sum, { tokens }) => sum + tokens, 0);
    const learnt = count(all.filter((part) => part.learnt));
    return `${name}: ${learnt} of ${count(all)} tokens are learnt\n${all.map(partText).join('')}`;
  });
  return [head, ...texts].join('\n');
}

const ENDS = 300;

function partText({ learnt, text }: MaskPart): string {
  if (learnt) return paint.isColorSupported ? paint.green(text) : `⟦${text}⟧`;
  const left = text.length - 2 * ENDS;
  return paint.dim(left < ENDS ? text : `${text.slice(0, ENDS)} … ${left} characters … ${text.slice(-ENDS)}`);
}
