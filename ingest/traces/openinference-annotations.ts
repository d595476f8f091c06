/** Annotations and evaluations of OpenInference spans: of the span, its trace or its session. */
import { given, without } from '../events/json.ts';
import { flattened, idAt, textAt, under } from '../formats/kit/span-attributes.ts';
import type { OtlpSpan } from './otlp/span.ts';
import type { Judgement } from './trace.ts';

/** Annotations of a span, its trace or its session. */
export function openinferenceJudgements(span: OtlpSpan): Judgement[] {
  const { attributes } = span;
  return (['', 'trace.', 'session.'] as const).flatMap((scope) =>
    (['annotation', 'evaluation'] as const).flatMap((word) =>
      flattened(attributes, `${scope}${word}s`).map((entry) => {
        const annotation = under(entry, `${word}.`) ?? {};
        const score = annotation.score;
        const session = scope === 'session.' ? (idAt(attributes, 'session.id') ?? null) : null;
        const explanation = textAt(annotation, 'explanation');
        return {
          format: 'openinference',
          id: null,
          trace: session === null ? span.traceId : null,
          act: scope === '' ? span.spanId : null,
          foreign: session,
          name: idAt(annotation, 'name') ?? word,
          ...(typeof score === 'number' || typeof score === 'boolean'
            ? { value: score }
            : score === undefined
              ? {}
              : { value: null, flags: ['not_a_number'] }),
          ...given('label', textAt(annotation, 'label')),
          ...given('explanation', explanation),
          ...given('by', textAt(annotation, 'annotator_kind')?.toLowerCase()),
          ...given('annotator', idAt(annotation, 'identifier')),
          time: span.end,
          unmapped: without(
            annotation,
            'name',
            'label',
            'explanation',
            'annotator_kind',
            'identifier',
            ...(typeof score === 'string' ? [] : ['score']),
          ),
        };
      }),
    ),
  );
}
