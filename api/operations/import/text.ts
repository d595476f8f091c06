/** The report of an import as text for people. */
import { countText } from '../../../errors.ts';
import { staysOpen } from '../../../store/projecting/closing.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { imported } from './run.ts';

export function text(report: OutputOf<typeof imported>, { say }: Printer): string {
  const { received, accepted, duplicates, rejected } = report.events;
  const { files, skipped_files, unread_lines = [], errors, mapping } = report;
  if (files === 0 && skipped_files.length === 0 && received === 0) say('There was no file to import.');
  for (const skipped of skipped_files) say(`skipped ${skipped.file}: ${skipped.reason}`);
  for (const { format, type, lines } of unread_lines)
    say(
      `not read: ${countText(lines, 'line')} of type ${type}, which ${format} does not know; kept in the record alone`,
    );
  for (const { file, line, field, code, expected, got } of errors.slice(0, 20))
    say(
      `refused ${file}${line ? `:${line}` : ''}${field ? ` ${field}` : ''}: ${code}, expected ${expected}, got ${got}`,
    );
  for (const one of report.stays_open) say(staysOpen(one.episode_id, one));
  if (errors.length > 20) say(`… and ${errors.length - 20} more; \`troupe deadletters\` lists them.`);
  return [
    `Format ${report.format ?? 'unknown'}: ${countText(files, 'file')}, ${countText(report.episodes, 'episode')}, ${countText(report.tasks, 'task')}, ${countText(report.agents, 'agent')}, ${countText(report.calls, 'call')}, ${countText(report.steps, 'step')}, ${countText(report.tool_calls, 'tool call')}, ${report.feedback} feedback.`,
    `Events: ${received} received = ${accepted} accepted + ${duplicates} known already + ${rejected} rejected.`,
    ...(mapping ? [JSON.stringify(mapping, null, 2)] : []),
  ].join('\n');
}
