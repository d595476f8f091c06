/** What operations that run a model over recorded tasks do. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { lowerFilter } from '../../../store/filter/select.ts';
import { openEmbedder } from '../../../trainer/sample/embedding/embedding.ts';
import * as embeddings from '../../../trainer/sample/embedding/task-embeddings.ts';
import { chosenBy } from '../judge/run.ts';
import type { ChangeContext } from '../operation.ts';

/** Tasks read, embedded and appended at once: what an interruption loses. */
const TASKS_AT_ONCE = 500;
/** Refused tasks that are shown. */
const EXAMPLES = 10;

export async function embed(
  { db, log, settings, now, catchUp, progress, signal }: ChangeContext,
  { model: folder, filter, threads }: { readonly model: string; readonly filter?: string; readonly threads?: number },
) {
  await catchUp();
  const { where: chosen, warnings } = filter === undefined ? { where: null, warnings: [] } : await chosenBy(db, filter);
  const where = chosen === null ? null : lowerFilter(chosen);
  const model = await openEmbedder(folder, { threads: threads ?? settings.threads ?? 1 });
  const refused: { task_id: string; reason: string }[] = [];
  const counts = { tasks: 0, recorded: 0, known: 0, cut: 0 };
  try {
    const total = await embeddings.countTasks(db, where);
    let after: string | null = null;
    for (;;) {
      signal.throwIfAborted();
      const part = await embeddings.storedTasks(db, where, after, TASKS_AT_ONCE);
      if (part.length === 0) break;
      after = part.at(-1)!.task_id;
      const texts = part.flatMap(({ task_id, text }) => (text?.trim() ? [{ task_id, text }] : []));
      for (const { task_id, text } of part)
        if (!text?.trim()) refused.push({ task_id, reason: text === null ? 'no_text' : 'empty_text' });
      const wanted = await embeddings.unembedded(db, texts, model.id);
      const embedded = await model.embed(
        wanted.map(({ text }) => text),
        (done) => progress(counts.tasks + (part.length * done) / wanted.length, total, `${counts.recorded} recorded`),
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
      progress(counts.tasks, total, `${counts.recorded} recorded`);
    }
  } finally {
    await model.close();
  }
  await catchUp();
  const reasons = [...groupBy(refused, ({ reason }) => reason)].map(([reason, of]) => [reason, of.length] as const);
  return {
    ...{ model_id: model.id, ...counts },
    refused: {
      tasks: refused.length,
      reasons: Object.fromEntries(reasons),
      examples: refused.slice(0, EXAMPLES),
    },
    warnings,
  };
}
