/** What a call to a model server asks for, by its path. */
export type Kind = 'chat' | 'text' | 'responses' | 'messages' | 'embeddings';
