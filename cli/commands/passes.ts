/** `troupe passes`: embeddings of tasks and answers. */
import type { Command } from 'commander';
import { EXIT } from '../../errors.ts';
import { groupBy } from '../../ingest/events/group-by.ts';
import { lowerFilter } from '../../store/filter/select.ts';
import { type Flags, plainCommand, wholeNumber } from '../command.ts';
import { withContext } from '../context.ts';
import { episodeFilter } from '../episode-filter.ts';
import { answer, progressBar, table } from '../output.ts';
import { EXAMPLES } from '../over-episodes.ts';

export function addTo(program: Command): void {
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
    import('../../trainer/sample/embedding/embedding.ts'),
    import('../../trainer/sample/embedding/task-embeddings.ts'),
  ]);
  return withContext(flags, async ({ db, log, config, now, catchUp }) => {
    await catchUp();
    const where =
      flags.where === undefined ? null : lowerFilter(await episodeFilter(db, String(flags.where), '--where'));
    const model = await openEmbedder(String(flags.model), { threads: config.threads });
    const bar = progressBar('Vectors', flags);
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
    const facts = { model_id: model.id, ...counts };
    const examples = refused.slice(0, EXAMPLES);
    answer(flags, { ...facts, refused: { tasks: refused.length, reasons: Object.fromEntries(why), examples } }, () =>
      [
        table(['what', 'value'], Object.entries({ ...facts, refused: refused.length })),
        ...(refused.length > 0 ? [table(['refused because', 'tasks'], why)] : []),
      ].join('\n'),
    );
    return refused.length > 0 ? EXIT.refused : EXIT.done;
  });
}
