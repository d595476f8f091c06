/** Forward passes: log-probabilities of rows in a file, log-probabilities and values of recorded steps, vectors of the texts of tasks. */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { loadConfig } from '../../config.ts';
import { EXIT, got, TroupeError, unreadable } from '../../errors.ts';
import { homeAt } from '../../store/db/home.ts';
import type { Db } from '../../store/db/pool.ts';
import { anyOf, query, rowsOf } from '../../store/db/query.ts';
import { groupBy } from '../../store/methods/statistics.ts';
import { lowerFilter } from '../../store/select.ts';
import type { StepRow } from '../../trainer/data/training-rows.ts';
import type { Valued } from '../../trainer/data/value-rows.ts';
import type { Pass } from '../../trainer/sampling/passes.ts';
import { type Flags, plainCommand, wholeNumber } from '../command.ts';
import { withContext } from '../context.ts';
import { episodeFilter } from '../episode-filter.ts';
import { openedDataset } from '../open-dataset.ts';
import { print, printJson, progressBar, table } from '../output.ts';

const EPISODES = 'ids of episodes, separated by commas, or a filter as in a recipe: reward > 0';
const RECORD = 'append the results to the log, where the judge reads them (default: print them)';

/** Refused steps that are shown. */
const EXAMPLES = 10;

export function passesCommands(program: Command): void {
  plainCommand(
    program
      .command('logprobs')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .option(
        '--data <file>',
        'JSON lines {"input_ids":[…]}, or a frozen dataset; every token of a row except the first',
      )
      .option('--episodes <which>', EPISODES)
      .addOption(
        new Option(
          '--as <pass>',
          'reference: given its prompt; masked: the next step, without this one in its prompt; alone: without its prompt',
        )
          .choices(['reference', 'masked', 'alone'])
          .default('reference'),
      )
      .option('--record', RECORD)
      .option('--threads <n>', 'threads (TROUPE_THREADS, 1)', wholeNumber('threads'))
      .addHelpText(
        'after',
        '\nExamples:\n  troupe logprobs --model ./checkpoint --data rows.jsonl --json\n  troupe logprobs --model ./reference --episodes ep-1,ep-2 --as masked --record',
      ),
    async (_, flags) => {
      if ((flags.data === undefined) === (flags.episodes === undefined))
        throw new TroupeError('usage', 'Missing --data FILE or --episodes WHICH; give exactly one.');
      if (flags.data !== undefined && flags.record)
        throw new TroupeError('usage', '--record needs recorded steps: pass --episodes WHICH instead of --data.');
      if (flags.data !== undefined) return ofFile(flags);
      const { LOGPROB_PASSES } = await import('../../trainer/sampling/passes.ts');
      return overEpisodes(flags, LOGPROB_PASSES.find(({ name }) => name === flags.as)!);
    },
  );
  plainCommand(
    program
      .command('values')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .requiredOption('--episodes <which>', EPISODES)
      .addOption(
        new Option(
          '--of <what>',
          'tokens: what stands before each; state: the prompt of a step; answer: with its answer',
        )
          .choices(['tokens', 'state', 'answer'])
          .default('tokens'),
      )
      .option('--record', RECORD)
      .option('--threads <n>', 'threads (TROUPE_THREADS, 1)', wholeNumber('threads'))
      .addHelpText('after', '\nExample:\n  troupe values --model ./value-model --episodes ep-1,ep-2 --record'),
    async (_, flags) => {
      const { valuePass, valuesPass } = await import('../../trainer/sampling/passes.ts');
      return overEpisodes(flags, flags.of === 'tokens' ? valuesPass : valuePass(flags.of as Valued));
    },
  );
  const passes = program
    .command('passes')
    .addHelpText('after', '\nExample:\n  troupe passes embed --model ./embedding-model');
  plainCommand(
    passes
      .command('embed')
      .description('compute an embedding of each task and append it to the log, where the judge compares tasks by it')
      .requiredOption('--model <dir>', 'directory with model.onnx and tokenizer.json, as sentence-transformers exports')
      .option('--where <filter>', 'only tasks of episodes that match this filter: as in a recipe, as JSON')
      .option('--threads <n>', 'threads (TROUPE_THREADS, 1)', wholeNumber('threads'))
      .addHelpText('after', '\nExample:\n  troupe passes embed --model ./all-MiniLM-L6-v2-onnx'),
    (_, flags) => embedTasks(flags),
  );
}

/** Tasks read, embedded and appended at once: what an interruption loses. */
const TASKS_AT_ONCE = 500;

async function embedTasks(flags: Flags): Promise<number> {
  const [{ openEmbedder }, embeddings] = await Promise.all([
    import('../../trainer/embedding/embedding.ts'),
    import('../../trainer/embedding/task-embeddings.ts'),
  ]);
  return withContext(flags, async ({ db, log, config, now, catchUp }) => {
    await catchUp();
    const where =
      flags.where === undefined ? null : lowerFilter(await episodeFilter(db, String(flags.where), '--where'));
    const model = await openEmbedder(String(flags.model), { threads: config.threads });
    const bar = progressBar('Vectors', { quiet: flags.quiet === true || flags.json === true });
    const refused: { task_id: string; reason: string }[] = [];
    const counts = { tasks: 0, recorded: 0, known: 0, cut: 0 };
    try {
      const total = await embeddings.countTasks(db, where);
      let after: string | null = null;
      for (;;) {
        const part = await embeddings.storedTasks(db, where, after, TASKS_AT_ONCE);
        if (part.length === 0) break;
        after = part.at(-1)!.task_id;
        const texts = part.flatMap(({ task_id, text }) => (text?.trim() ? [{ task_id, text }] : []));
        for (const { task_id, text } of part)
          if (!text?.trim()) refused.push({ task_id, reason: text === null ? 'no_text' : 'empty_text' });
        const wanted = await embeddings.unembedded(db, texts, model.id);
        const embedded = await model.embed(
          wanted.map(({ text }) => text),
          (done) =>
            bar.update(counts.tasks + (part.length * done) / wanted.length, total, `${counts.recorded} recorded`),
        );
        const drafts = wanted.flatMap((task, i) => {
          const { vector, reason, cut } = embedded[i]!;
          if (cut) counts.cut++;
          if (vector === null) refused.push({ task_id: task.task_id, reason: reason! });
          return vector === null ? [] : [embeddings.embeddingDraft(task, vector, model.id, now().toISOString())];
        });
        const fresh = await embeddings.recordEmbeddings(log, drafts);
        counts.recorded += fresh;
        counts.known += texts.length - wanted.length + drafts.length - fresh;
        counts.tasks += part.length;
        bar.update(counts.tasks, total, `${counts.recorded} recorded`);
      }
    } finally {
      bar.stop();
      await model.close();
    }
    await catchUp();
    const why = [...groupBy(refused, ({ reason }) => reason)].map(([reason, of]) => [reason, of.length] as const);
    const answer = { model_id: model.id, ...counts };
    const examples = refused.slice(0, EXAMPLES);
    if (flags.json)
      printJson({ ...answer, refused: { tasks: refused.length, reasons: Object.fromEntries(why), examples } });
    else {
      print(table(['what', 'value'], Object.entries({ ...answer, refused: refused.length })));
      if (refused.length > 0) print(table(['refused because', 'tasks'], why));
    }
    return refused.length > 0 ? EXIT.refused : EXIT.done;
  });
}

async function ofFile(flags: Flags): Promise<number> {
  const config = loadConfig(flags, process.env);
  const rows = await tokenRows(String(flags.data), homeAt(config.home).datasets);
  const { policy } = await speaker(String(flags.model), config.threads);
  const logprobs = await policy.logprobs(rows.map((row) => ({ promptIds: row.slice(0, 1), tokenIds: row.slice(1) })));
  await policy.close();
  if (flags.json) printJson({ logprobs });
  else for (const row of logprobs) print(row.map((x) => x.toFixed(4)).join(' '));
  return EXIT.done;
}

type Printed = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly without?: string;
  readonly numbers: readonly number[];
};

async function overEpisodes(flags: Flags, pass: Pass): Promise<number> {
  const { passEpisodes, reasonsOf } = await import('../../trainer/sampling/pass-episodes.ts');
  const { openModelForIds } = await import('../../trainer/models/model-directory.ts');
  return withContext(flags, async ({ db, log, config, now, catchUp }) => {
    await catchUp();
    const episodes = await chosenEpisodes(db, String(flags.episodes));
    const model = await openModelForIds(String(flags.model));
    const bar = progressBar(pass.of === 'values' ? 'Values' : 'Log-probabilities', {
      quiet: flags.quiet === true || flags.json === true,
    });
    const printed: Printed[] = [];
    const passed = await passEpisodes(episodes, pass, {
      db,
      log: flags.record ? log : null,
      model,
      threads: config.threads,
      now,
      onPart: ({ rows, numbers, done, tokens }) => {
        bar.update(done, episodes.length, `${tokens} tokens`);
        if (flags.record) return;
        for (const [i, { episodeId, stepId, without }] of rows.entries()) {
          const about = { episode_id: episodeId, step_id: stepId, ...(without === null ? {} : { without }) };
          printed.push({ ...about, numbers: numbers[i]! });
        }
      },
    }).finally(() => bar.stop());
    if (flags.record) await catchUp();
    const { rows: steps, tokens, recorded, known, refused } = passed;
    const why = reasonsOf(refused);
    const answer = {
      checkpoint_id: model.id,
      pass: pass.name,
      episodes: episodes.length,
      steps,
      tokens,
      ...(flags.record ? { recorded, known } : {}),
      refused: { steps: refused.length, reasons: why, examples: refused.slice(0, EXAMPLES) },
    };
    if (flags.json || !flags.record) {
      const rows = printed.map(({ numbers, ...row }) => ({ ...row, [pass.of]: numbers }));
      printJson(flags.record ? answer : { ...answer, rows });
    } else {
      const { steps } = answer.refused;
      print(table(['what', 'value'], Object.entries({ ...answer, refused: steps })));
      if (steps > 0) print(table(['refused because', 'steps'], Object.entries(why)));
    }
    return refused.length > 0 ? EXIT.refused : EXIT.done;
  });
}

/** Ids of episodes that there are, in order. @throws TroupeError `not_found` for an id nobody has, `recipe_invalid` for a filter that is none. */
async function chosenEpisodes(db: Db, which: string): Promise<string[]> {
  if (/^\s*\{|[=<>(]|\sis\s|\slike\s|\shas\s/iu.test(which)) {
    const { episodesWhere } = await import('../../trainer/sampling/pass-episodes.ts');
    return episodesWhere(db, await episodeFilter(db, which, '--episodes'));
  }
  const ids = [
    ...new Set(
      which
        .split(',')
        .map((id) => id.trim())
        .filter(Boolean),
    ),
  ];
  const rows = await rowsOf(
    db,
    query.selectFrom('facts.episodes').select('episode_id').where('episode_id', '=', anyOf(ids)).orderBy('episode_id'),
  );
  const found = new Set(rows.map(({ episode_id }) => episode_id));
  const absent = ids.find((id) => !found.has(id));
  if (absent !== undefined || ids.length === 0)
    throw new TroupeError('not_found', `There is no episode ${got(absent ?? which)}.`, {
      hint: '`troupe episodes` lists them.',
    });
  return [...found];
}

/** A model directory and its policy, opened. */
export async function speaker(dir: string, threads: number) {
  const [{ openModelForIds }, { Policy }] = await Promise.all([
    import('../../trainer/models/model-directory.ts'),
    import('../../trainer/sampling/policy.ts'),
  ]);
  const model = await openModelForIds(dir);
  return { model, policy: await Policy.load(model.config, model.weights, { threads }) };
}

async function tokenRows(data: string, datasets: string): Promise<number[][]> {
  if (!data.endsWith('.jsonl')) {
    const { policyRow } = await import('../../trainer/data/training-rows.ts');
    const dataset = await openedDataset(datasets, data);
    return ([...dataset.rows('train')] as unknown as StepRow[]).map((row) => {
      const { promptIds, tokenIds } = policyRow({ ...row, logprobs: row.logprobs ?? [] });
      return [...promptIds, ...tokenIds];
    });
  }
  const file = await readFile(data, 'utf8').catch((cause) => {
    throw unreadable(data, cause);
  });
  const lines = file.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line, i) => {
    const ids = inputIds(line);
    if (Array.isArray(ids) && ids.length >= 2 && ids.every((id) => Number.isSafeInteger(id) && id >= 0))
      return ids as number[];
    throw new TroupeError('input_refused', `${data}:${i + 1} should have input_ids, a list of at least two token ids.`);
  });
}

function inputIds(line: string): unknown {
  try {
    return (JSON.parse(line) as { input_ids?: unknown } | null)?.input_ids;
  } catch {
    return null;
  }
}
